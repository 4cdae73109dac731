"""The site after builds that were ended, or had little to do."""

import pytest

from tests.helpers.builds import written
from tests.helpers.evidence import record


def files(folder, pattern):
    """Return when each file below a folder was last written."""
    return {
        str(path): path.stat().st_mtime_ns
        for path in folder.rglob(pattern)
        if path.is_file()
    }


def verdict(house):
    """Return what the page says of its claim."""
    html = (house / "out/html/part/one.html").read_text()
    return [word for word in ("passed", "failed") if f"claim-{word}" in html]


def test_a_second_build_reads_nothing_and_writes_nothing(house, build):
    before = files(house / "out/html", "*/*.html")

    app = build()

    assert written(app) == set()
    assert files(house / "out/html", "*/*.html") == before


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


def test_another_builder_ends_before_a_program_runs(unbuilt, stopped):
    assert stopped("-b", "text") == [
        f"{unbuilt}/docs/conf.py:1: ERROR: the site cannot be built as"
        " text: build html, with -b html or without -b [proven]"
    ]
    assert not (unbuilt / "docs/code").exists()


def test_a_build_says_why_it_writes_a_page(house, build):
    page = house / "docs/part/two.md"
    page.write_text(page.read_text().replace("# Two", "# Second"))

    said = build().status.getvalue()

    assert "part/two: to be written (navigation, text" in said
    assert "to be written (navigation)" in said


def test_a_page_that_is_built_alone_leaves_no_other_old(house, build):
    for name in ("one", "two"):
        page = house / f"docs/part/{name}.md"
        page.write_text(f"{page.read_text()}\nMore words.\n")
    app = build()
    app.build(filenames=[house / "docs/part/two.md"])

    build()

    for name in ("one", "two"):
        text = (app.outdir / f"part/{name}.html").read_text()
        assert "More words." in text
