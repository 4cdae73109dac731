"""The site after builds that were ended, doubled, or had nothing to do."""

import os
import shutil
import subprocess
import sys
import time

import pytest

from extensions.core.topics import ROOT
from tests.helpers.builds import written
from tests.helpers.evidence import record

BUILD = [sys.executable, "-m", "sphinx", "-q", "docs", "out/html"]

WAITS = """
import time
from pathlib import Path
while not Path({!r}).exists():
    time.sleep(0.05)
"""


def files(folder):
    """Return when each file below a folder was last written."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


def verdict(house):
    """Return what the page says of its claim."""
    html = (house / "out/html/part/one.html").read_text()
    return [word for word in ("passed", "failed") if f"claim-{word}" in html]


def test_a_second_build_reads_nothing_and_writes_nothing(house, build):
    before = files(house)

    app = build()

    assert app.builder.is_current
    assert files(house) == before


@pytest.mark.parametrize(
    ("event", "after"),
    [
        ("builder-inited", 0),
        ("doctree-read", 1),
        ("env-updated", 0),
        ("env-check-consistency", 0),
        ("doctree-resolved", 2),
        ("html-page-context", 2),
        ("html-collect-pages", 0),
        ("build-finished", 0),
    ],
)
def test_a_build_that_was_killed_is_made_good(
    house, build, kill, event, after
):
    record(house, test_word_is_one="failed")
    page = house / "docs/part/two.md"
    page.write_text(page.read_text().replace("# Two", "# Second"))

    assert kill(event, after) == 9
    build()

    assert verdict(house) == ["failed"]
    second = (house / "out/html/part/two.html").read_text()
    assert "<title>Second" in second
    index = (house / "out/html/search-index.js").read_text("utf-8")
    assert "Second" in index


def test_a_page_that_was_cut_off_fails_the_build(house, build, monkeypatch):
    app = build("html", freshenv=True)
    page = house / "docs/part/one.md"
    page.write_text(f"{page.read_text()}\nMore.\n")

    def cut(*args):
        path = house / "out/html/part/one.html"
        path.write_text(path.read_text()[:2000])

    monkeypatch.setattr(type(app.builder), "dump_search_index", cut)

    with pytest.raises(SystemExit):
        build()
    monkeypatch.undo()
    assert "part/one" in written(build())


def test_a_page_that_is_gone_leaves_the_site(house, build):
    (house / "docs/part/one.md").unlink()

    build()

    assert not (house / "out/html/part/one.html").exists()


def test_a_changed_template_renews_the_pages(house, build):
    template = house / "docs/templates/panel.html"
    template.parent.mkdir()
    template.write_text("<p>A panel of the site's own.</p>")
    own = {"templates_path": ["templates"]}
    build(confoverrides=own)
    template.write_text("<p>Another one.</p>")

    app = build(confoverrides=own)

    assert "part/one" in written(app)
    assert "Another one." in (app.outdir / "part/one.html").read_text()


def test_a_changed_correction_renews_its_page(house, build):
    claims = house / "docs/evidence/claims.md"
    claims.write_text(claims.read_text() + "\n```{corrections}\n```\n")
    path = house / "docs/evidence/corrections/part/one.toml"
    path.parent.mkdir(parents=True)
    row = '[[correction]]\nsource = "A"\nsection = "1"\nsaid = "{}"\n'
    row += 'holds = "one"\nclaim = "word-is-one"\n'
    path.write_text(row.format("two"))
    build()

    path.write_text(row.format("three"))
    app = build()

    assert "evidence/claims" in written(app)
    assert "part/one" not in written(app)
    assert "three" in (app.outdir / "evidence/claims.html").read_text()


def test_a_build_waits_for_another(house, build):
    go = house / "go"
    slow = house / "snippets/part/two.py"
    slow.write_text(slow.read_text() + WAITS.format(str(go)))
    record(house)
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTHONUNBUFFERED": "1",
    }
    (house / "build/site.lock").unlink(missing_ok=True)  # of its last build
    first = subprocess.Popen(BUILD, cwd=house, env=environment)
    while not (house / "build/site.lock").exists():
        time.sleep(0.05)

    with subprocess.Popen(
        [*BUILD[:3], *BUILD[4:]],
        cwd=house,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as second:
        said = []
        for line in second.stdout:
            said.append(line)
            if "another build is at work" in line:
                go.touch()

    assert (first.wait(), second.wait()) == (0, 0)
    assert any("another build is at work" in line for line in said)
    assert any("no targets are out of date" in line for line in said), said


@pytest.mark.parametrize("content", ["null", '{"index": ', "[1]"])
def test_a_damaged_record_renews_all_pages(house, build, content):
    builder = build().builder
    builder.record.write_text(content)

    assert written(build()) >= {"index", "part/one", "part/two"}
    assert build().builder.is_current


@pytest.mark.parametrize(
    "path",
    [
        "part/one.html",
        "_static/pygments.css",
        "claims.json",
        "search-index.js",
        "_downloads",
        "_images",
    ],
)
def test_what_another_hand_has_removed_is_written_again(house, build, path):
    site = house / "out/html"
    before = files(site).keys()
    there = site / path
    shutil.rmtree(there) if there.is_dir() else there.unlink()

    build()

    assert files(site).keys() == before
    assert build().builder.is_current


@pytest.mark.parametrize("path", ["part/one.html", "_static/pygments.css"])
def test_what_another_hand_has_cut_off_is_written_again(house, build, path):
    path = house / "out/html" / path
    whole = path.read_bytes()
    path.write_bytes(whole[:100])

    build()

    assert path.read_bytes() == whole


@pytest.mark.parametrize(
    "length", [0, 100, None], ids=["empty", "cut", "gone"]
)
def test_a_damaged_doctree_is_made_again(house, build, length):
    app = build()
    html = (app.outdir / "part/one.html").read_bytes()
    doctree = app.doctreedir / "part/one.doctree"
    content = doctree.read_bytes()
    doctree.unlink()
    if length is not None:
        doctree.write_bytes(content[:length])

    app = build()

    assert (app.outdir / "part/one.html").read_bytes() == html


def test_another_builder_ends_before_a_program_runs(unbuilt, stopped):
    assert stopped("-b", "text") == [
        f"{unbuilt}/docs/conf.py:1: ERROR: the site cannot be built as"
        " text: build html, with -b html or without -b [proven]"
    ]
    assert not (unbuilt / "docs/code").exists()


def test_a_page_cannot_be_built_alone(house, build):
    app = build()
    page = house / "docs/part/two.md"

    with pytest.raises(SystemExit):
        app.build(filenames=[page])
    assert f"{page}:1: ERROR: a page cannot be built" in app.warning.getvalue()


def test_a_build_says_why_it_writes_a_page(house, build):
    page = house / "docs/part/two.md"
    page.write_text(page.read_text().replace("# Two", "# Second"))

    said = build().status.getvalue()

    assert "part/two: to be written (the navigation, its text)" in said
    assert "(the navigation)" in said
