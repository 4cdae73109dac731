"""The site after builds that were ended, doubled, or had nothing to do."""

import os
import subprocess
import sys
import time

import pytest

from extensions.core.topics import ROOT
from tests.extensions.build.test_whole_site import written
from tests.extensions.conftest import record

ENDING = """
import os
def setup(app):
    seen = []
    def end(*args):
        seen.append(1)
        if len(seen) > {after}:
            os._exit(9)
    app.connect("{event}", end)
"""
BUILD = [sys.executable, "-m", "sphinx", "-q", "docs", "out/html"]


def files(folder):
    """Return when each file below a folder was last written."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in folder.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def kill(house, build):
    """Return a build, in a process that ends itself at an event of Sphinx."""

    def kill(event, after=0):
        conf = house / "docs/conf.py"
        text = conf.read_text()
        conf.write_text(text + ENDING.format(event=event, after=after))
        if (child := os.fork()) == 0:
            try:
                build()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        conf.write_text(text)
        return os.waitstatus_to_exitcode(status)

    return kill


def verdict(house):
    """Return what the page says of its claim."""
    html = (house / "out/html/part/one.html").read_text()
    return [word for word in ("passed", "failed") if f"claim-{word}" in html]


def test_a_second_build_reads_nothing_and_writes_nothing(house, build):
    build()
    before = files(house)

    app = build()

    assert app.builder.is_current
    assert files(house) == before


@pytest.mark.parametrize(
    ("event", "after"),
    [
        ("builder-inited", 0),
        ("env-before-read-docs", 0),
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
    build()
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


def test_another_builder_takes_no_result_from_the_pages(house, build):
    build()
    record(house, test_word_is_one="failed")
    build("dummy")

    build()

    assert verdict(house) == ["failed"]


def test_a_page_that_is_gone_leaves_the_site(house, build):
    build()
    (house / "docs/part/one.md").unlink()

    build()

    assert not (house / "out/html/part/one.html").exists()


def test_a_changed_template_renews_the_pages(house, build):
    build()
    template = house / "docs/templates/panel.html"
    template.write_text(template.read_text() + "\n")

    assert "part/one" in written(build())


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
    slow = house / "snippets/part/two.py"
    slow.write_text(f"{slow.read_text()}\nimport time\ntime.sleep(3)\n")
    record(house)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen(BUILD, cwd=house, env=environment)
    while not (house / "build/site.lock").exists():
        time.sleep(0.05)

    second = subprocess.run(
        [*BUILD[:3], *BUILD[4:]],
        cwd=house,
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )

    assert first.wait() == 0
    assert "another build is at work" in second.stdout
    assert "no targets are out of date" in second.stdout


@pytest.mark.parametrize("content", ["null", '{"index": ', "[1]"])
def test_a_damaged_record_renews_all_pages(house, build, content):
    builder = build().builder
    builder.record.write_text(content)

    assert written(build()) >= {"index", "part/one", "part/two"}
    assert build().builder.recorded == builder.marks
