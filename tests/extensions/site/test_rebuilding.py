"""What is built again: all that a change makes another, and little else.

Whatever a page is made from, a change of it gives the site that a fresh build
of the same files gives, and so does its way back.
"""

import os
import shutil
from pathlib import Path

import pytest

from tests.helpers.builds import written
from tests.helpers.evidence import record

CORRECTION = """
[[correction]]
source = "A"
section = "{}"
said = "two"
holds = "one"
claim = "word-is-one"
"""
# What is added to a file, by its name or its ending.
ADDED = {
    "docs/conf.py": "\nhtml_title = 'Another'\n",
    "docs/evidence/corrections/part/one.toml": CORRECTION.format(2),
    "tests/part/test_one.py": "\nMORE = 1\n",
    ".md": "\nMore words.\n",
    ".rst": "\nMore words.\n",
    ".py": "\nprint('more')\n",
    ".html": "\n<!-- more -->\n",
}
# Another title and another claim: pages show each of them without the rest.
REPLACED = {"# One": "# Once", "is one]": "is still one]"}
# Not by hand.
LEFT = ("docs/code/", "docs/gallery/", "build/", "out/")
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


@pytest.fixture
def rich(house):
    """A house whose pages show something of each other, each another thing."""
    docs = house / "docs"
    added = {
        "part/two.md": "```{recap} part/one#word-is-one\n```\n",
        "part/with_cell.md": "# A\n\n```{cell} count\n:from: part/one\n```\n",
        "evidence/claims.md": "```{corrections}\n```\n",
        "evidence/corrections/part/one.toml": CORRECTION.format(1),
        "templates/panel.html": "<p>A panel of the site's own.</p>",
        "conf.py": "templates_path = ['templates']\n",
    }
    for name, more in added.items():
        (docs / name).parent.mkdir(parents=True, exist_ok=True)
        with (docs / name).open("a") as file:
            file.write(f"\n{more}")
    return house


def inputs_of(house):
    """Return the files of a house that nothing has made."""
    names = (
        path.relative_to(house).as_posix()
        for path in sorted(house.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    return [name for name in names if not name.startswith(LEFT)]


def groups_of(house):
    """Return these files in groups: those of all pages, and some others."""
    names = inputs_of(house)
    of_all = [name for name in names if name.endswith((".html", "conf.py"))]
    others = [name for name in names if name not in of_all]
    return [of_all, *(others[at::3] for at in range(3))]


def site(folder):
    """Return what stands in each file of a site."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".buildinfo")
    }


def edited(content, name):
    """Return another content of a file."""
    for old, new in REPLACED.items():
        content = content.replace(old, new)
    return content + (ADDED.get(name) or ADDED[Path(name).suffix])


def test_a_change_of_any_file_gives_the_site_of_a_fresh_build(
    rich, build, make_app, tmp_path
):
    # Where the house stands is not seen either.
    fresh = tmp_path / "ein Haus mit Ü"
    before = site(build().outdir)

    for names in groups_of(rich):
        contents = {name: (rich / name).read_text() for name in names}
        for name, content in contents.items():
            (rich / name).write_text(edited(content, name))
        there = site(build().outdir)
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.copytree(rich, fresh, ignore=shutil.ignore_patterns("out"))
        app = make_app(srcdir=fresh / "docs", builddir=fresh / "out")
        app.build()
        assert there == site(app.outdir), names
        for name, content in contents.items():
            (rich / name).write_text(content)

    assert site(build().outdir) == before


def test_a_sentence_more_writes_its_page_and_what_counts_sentences(
    house, build
):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\nA sentence more.\n")

    app = build()

    assert written(app) == {"index", "part/one"}
    assert "part/one: to be written (text)" in app.status.getvalue()
    assert written(build()) == set()


def test_parallel_readers_write_the_same(house, build):
    before = site(house / "out/html")

    app = build(freshenv=True, parallel=2)

    assert site(app.outdir) == before


def test_other_colours_of_code_write_all_pages_again(house, build):
    with (house / "docs/conf.py").open("a") as conf:
        conf.write("html_theme = 'furo'\n")
    build()
    with (house / "docs/conf.py").open("a") as conf:
        conf.write("pygments_dark_style = 'monokai'\n")

    app = build()

    assert written(app) >= {"index", "part/one"}
    page = app.outdir / "evidence/tests/part/one.html"
    assert page.stat().st_mtime > (house / "docs/conf.py").stat().st_mtime
    assert written(build()) == set()


@pytest.mark.parametrize("part", ["installed", "our_code"])
def test_our_own_code_and_what_is_installed_write_all_pages_again(
    build, monkeypatch, part
):
    place = f"extensions.site.dependencies.{part}"
    monkeypatch.setattr(place, lambda: "other")

    assert written(build()) >= {"index", "part/one"}
    assert written(build()) == set()


@pytest.mark.parametrize(
    ("event", "after"),
    [("doctree-read", 1), ("html-page-context", 2), ("build-finished", 0)],
)
def test_a_build_that_was_killed_is_made_good(rich, build, event, after):
    build()
    record(rich, test_word_is_one="failed")
    page = rich / "docs/part/two.md"
    page.write_text(page.read_text().replace("# Two", "# Second"))
    conf = rich / "docs/conf.py"
    text = conf.read_text()
    conf.write_text(text + ENDING.format(event=event, after=after))
    if (child := os.fork()) == 0:
        try:
            build()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    conf.write_text(text)
    assert os.waitstatus_to_exitcode(status) == 9

    out = build().outdir

    second = (out / "part/two.html").read_text()
    assert "<title>Second" in second
    assert 'aria-label="failed"' in second
    assert "Second" in (out / "search-index.js").read_text("utf-8")


def test_a_page_that_is_gone_leaves_the_site(house, build):
    (house / "docs/part/one.md").unlink()

    app = build()

    assert not (app.outdir / "part/one.html").exists()
    for name in ("claims.json", "search-index.js"):
        assert "part/one" not in (app.outdir / name).read_text("utf-8")
