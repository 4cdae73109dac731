"""What the search knows of each page, in the script that holds it."""

import json

import pytest

from tests.helpers.builds import built


def script(app):
    """Return the pages and the synonyms that a browser gets."""
    text = (app.outdir / "search-index.js").read_text("utf-8")
    return json.loads(text.partition(" = ")[2].rstrip().rstrip(";"))


def searched(app, name):
    """Return what is found of a page."""
    [page] = [page for page in script(app)[0] if page[0] == name]
    return page


def sections(app, name):
    """Return the sections of a page."""
    return searched(app, name)[-1]


def edit(house, old, new):
    page = house / "docs/part/one.md"
    assert old in page.read_text()
    page.write_text(page.read_text().replace(old, new))


def test_a_page_is_found_by_title_heading_prose_and_names_of_code(
    house, build
):
    edit(house, "# One\n", "# One\n\nFirst first.\n")
    edit(house, "```{cell} count", "## Count\n\nSecond.\n\n```{cell} count")
    snippet = house / "snippets/part/one.py"
    snippet.write_text(
        snippet.read_text() + 'local = "A local word"\nprint(local.upper())\n'
    )

    page = searched(build(), "part/one")

    assert page[:3] == ["part/one", "part/one.html", "One"]
    (_, first, prose, *_), (anchor, second, below, code, _) = page[-1]
    assert (first, second, anchor) == ("One", "Count", "count")
    assert prose.startswith("First first.")
    assert "Second" not in prose
    assert below.startswith("Second")
    assert "A LOCAL WORD" in below  # what the cell printed
    assert "upper" in code.split()
    assert "local" not in code.split()


def test_words_of_the_front_matter_are_found_and_not_shown(house, build):
    edit(house, "# One\n", "---\nsearch: leak, OOM\n---\n\n# One\n")

    app = build()

    assert searched(app, "part/one")[4] == "leak, OOM"
    assert "OOM" not in (app.outdir / "part/one.html").read_text()


def test_headings_of_a_page_of_entries_are_known_as_its_names(house, build):
    (house / "docs/part/errors.md").write_text(
        "---\norphan: true\nnamed_by: headings\n---\n\n# Errors\n"
    )

    app = build()

    assert searched(app, "part/errors")[5] is True
    assert searched(app, "part/one")[5] is False


def test_synonyms_come_with_the_pages(house, build):
    assert script(build())[1] == []

    (house / "docs/synonyms.toml").write_text('"OOM" = "out of memory"\n')

    assert script(build())[1] == [["OOM", "out of memory"]]


@pytest.fixture(scope="module")
def extended(new_house):
    """A site with a glossary and corrections."""
    house = new_house()
    rows = house / "docs/evidence/corrections/part/one.toml"
    rows.parent.mkdir(parents=True)
    rows.write_text(
        '[[correction]]\nsource = "A"\nsection = "1"\nsaid = "It is zero."\n'
        'holds = "It is unity."\nclaim = "word-is-one"\n'
    )
    page = house / "docs/evidence/claims.md"
    page.write_text("# Rows\n\n```{corrections}\n```\n")
    page = house / "docs/glossary.md"
    page.write_text(
        "---\norphan: true\n---\n\n# Words\n\nLook up.\n\n"
        "```{glossary}\nleaf\n  What nothing has made.\n```\n"
    )
    return built(house)


def test_folded_code_and_panels_are_not_found(house, build):
    edit(house, "{cell} count\n", "{cell} count\n:folded:\n")
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + '"".casefold()\n')

    said = json.dumps(sections(build(), "part/one"))

    assert "casefold" not in said
    assert "without_one" not in said  # an edit of a counter-example
    assert "2.13.0" not in said


def test_the_page_of_corrections_is_found_by_its_rows(extended):
    [[_, _, text, *_]] = sections(extended, "evidence/claims")

    assert text == "It is zero. It is unity."


def test_a_term_of_the_glossary_is_found_by_its_own_place(extended):
    first, leaf = sections(extended, "glossary")

    assert first[:4] == ["", "Words", "Look up.", ""]
    assert leaf[:4] == ["term-leaf", "leaf", "What nothing has made.", ""]


def test_a_page_that_is_gone_is_not_found(house, build):
    page = house / "docs/more.md"
    page.write_text("# More\n")
    top = house / "docs/index.md"
    text = top.read_text()
    top.write_text(text.replace("part/one", "more\npart/one", 1))
    assert "more" in [page[0] for page in script(build())[0]]

    page.unlink()
    top.write_text(text)

    assert "more" not in [page[0] for page in script(build())[0]]


@pytest.mark.parametrize("jobs", [1, 2])
def test_every_build_writes_the_same_and_one_without_news_nothing(
    house, build, jobs
):
    app = build(parallel=jobs)
    path = app.outdir / "search-index.js"
    first, when = path.read_bytes(), path.stat().st_mtime_ns

    build(parallel=jobs)
    assert path.stat().st_mtime_ns == when

    build(parallel=jobs, freshenv=True)
    assert path.read_bytes() == first


def test_nothing_of_the_search_of_sphinx_is_left(site):
    left = {path.name for path in site.outdir.rglob("*search*")}
    ours = {"search-index.js", "search.css", "search.js", "searching.js"}

    assert left == ours | {"minisearch.min.js"}
    assert not (site.outdir / "_static/language_data.js").exists()


def test_each_section_has_its_sentences_for_results_to_quote(house, build):
    edit(house, "# One\n", "# One\n\nFirst of all.\nThe second one.\n")

    [[_, _, text, *_]] = sections(build(), "part/one")

    assert text.startswith("First of all.\nThe second one.\n")


def test_a_sentence_that_is_a_claim_has_its_sign(house, build):
    edit(house, "# One\n", "# One\n\nFirst\nand second.\n")

    [[_, _, text, _, claims]] = sections(build(), "part/one")

    [(line, found)] = claims.items()
    assert text.split("\n")[int(line)] == "word is one."
    assert found == ["word-is-one", "✓"]


def test_a_result_names_the_chapter_of_its_page(house, build):
    (house / "docs/part/index.md").write_text(
        "# A *part*\n\n```{toctree}\none\ntwo\n```\n"
    )
    front = house / "docs/index.md"
    front.write_text(front.read_text() + "\n```{toctree}\npart/index\n```\n")

    chapters = {page[0]: page[3] for page in script(build())[0]}

    assert chapters["part/one"] == "A part"
    assert chapters["part/index"] == chapters["index"] == ""
