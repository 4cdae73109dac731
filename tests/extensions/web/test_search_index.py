"""What the search finds, and the script that holds it."""

import json

import pytest

from extensions.web.search_texts import searched_pages
from tests.helpers.builds import built

MARK = "window.searchIndex = "


def index(app):
    """Return the index that a browser gets."""
    script = (app.outdir / "search-index.js").read_text("utf-8")
    return json.loads(script.partition(MARK)[2].rstrip().rstrip(";"))


def texts(app):
    """Return by page what is found of it."""
    return searched_pages(app.env)


def quotes(app):
    """Return by page the sentences of its sections, and their claims."""
    script = (app.outdir / "search-texts.js").read_text("utf-8")
    found = json.loads(script.partition(" = ")[2].rstrip().rstrip(";"))
    names = [page[0] for page in index(app)["pages"]]
    return dict(zip(names, found, strict=True))


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

    title, also, sections = texts(build())["part/one"]

    assert (title, also) == ("One", "")
    (_, first, prose, *_), (anchor, second, below, code, *_) = sections
    assert (first, second, anchor) == ("One", "Count", "count")
    assert prose.startswith("First ")
    assert "first" not in prose.split()
    assert "Second" not in prose
    assert below.startswith("Second")
    assert "LOCAL WORD" in below  # what the cell printed
    assert "upper" in code.split()
    assert "local" not in code.split()


def test_words_of_the_front_matter_are_found_and_not_shown(house, build):
    edit(house, "# One\n", "---\nsearch: leak, OOM\n---\n\n# One\n")

    app = build()

    assert texts(app)["part/one"].also == "leak, OOM"
    [[_, address, title, _, _, names, _]] = [
        page for page in index(app)["pages"] if page[0] == "part/one"
    ]
    assert (address, title) == ("part/one.html", "One")
    assert names == ["leak", "oom"]
    assert "OOM" not in (app.outdir / "part/one.html").read_text()


def test_headings_of_a_page_of_entries_weigh_as_its_names(house, build):
    (house / "docs/part/errors.md").write_text(
        "---\norphan: true\nnamed_by: headings\n---\n\n# Errors\n\n"
        "## Gradients\n\n### zzyzx has no grad_fn\n\nDo this.\n"
    )
    edit(house, "# One\n", "# One\n\n## qwfp of one\n")

    found = index(build())

    places = dict(line.split(":") for line in found["terms"].split())
    fields = {
        term: [at for at, held in enumerate(places[term].split(";")) if held]
        for term in ("zzyzx", "grad_fn", "gradient", "qwfp")
    }
    assert fields == {
        "zzyzx": [3],  # that of other names
        "grad_fn": [3],
        "gradient": [2],  # it only gathers entries
        "qwfp": [2],  # the page is not named by its headings
    }
    [page] = [page for page in found["pages"] if page[0] == "part/errors"]
    anchors = [anchor for anchor, _, sizes in page[6] if sizes[3]]
    assert anchors == ["zzyzx-has-no-grad-fn"]  # a result leads there


def test_each_name_of_a_page_is_a_document_behind_its_title(house, build):
    edit(house, "# One\n", "---\nsearch: leak, nn.Zzyzx, OOM\n---\n\n# One\n")

    found = index(build())

    before = 0
    for name, *_, names, sections in found["pages"]:
        if name == "part/one":
            break
        before += 1 + len(names) + len(sections)
    places = dict(line.split(":") for line in found["terms"].split())
    at = [int(places[term].split(";")[3], 36) for term in ("leak", "zzyzx")]
    assert at == [before + 1, before + 2]


@pytest.fixture(scope="module")
def extended(new_house):
    """A site with a glossary, corrections, and a page of what is elsewhere."""
    house = new_house()
    page = house / "docs/not_covered.md"
    page.write_text("---\norphan: true\n---\n\n# Not here\n")
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


def test_the_index_knows_the_page_that_leads_to_other_sites(site, extended):
    assert index(site)["elsewhere"] is None

    found = index(extended)

    assert found["pages"][found["elsewhere"]][0] == "not_covered"


def test_folded_code_and_panels_are_not_found(house, build):
    edit(house, "{cell} count\n", "{cell} count\n:folded:\n")
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + '"".casefold()\n')

    said = json.dumps(texts(build())["part/one"])

    assert "casefold" not in said
    assert "without_one" not in said  # an edit of a counter-example
    assert "2.13.0" not in said


def test_the_page_of_corrections_is_found_by_its_rows(extended):
    [[_, _, prose, *_]] = texts(extended)["evidence/claims"].sections

    assert prose == "zero unity"


def test_a_term_of_the_glossary_is_found_by_its_own_place(extended):
    first, leaf = texts(extended)["glossary"].sections

    assert first[:4] == ("", "Words", "Look", "")
    assert leaf[:4] == ("term-leaf", "leaf", "nothing made", "")


def test_a_page_that_is_gone_is_not_found(house, build):
    page = house / "docs/more.md"
    page.write_text("# More\n")
    top = house / "docs/index.md"
    text = top.read_text()
    top.write_text(text.replace("part/one", "more\npart/one", 1))
    assert "more" in texts(build())

    page.unlink()
    top.write_text(text)

    assert "more" not in texts(build())


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
    scripts = {"search-index.js", "search-texts.js"}
    ours = scripts | {"search.css", "search.js", "searching.js"}

    assert left == ours
    assert not (site.outdir / "_static/language_data.js").exists()
    assert "Stemmer" in (site.outdir / "search-index.js").read_text("utf-8")


def test_each_section_has_its_sentences_for_results_to_quote(house, build):
    edit(house, "# One\n", "# One\n\nFirst of all.\nThe second one.\n")

    app = build()

    [text, _] = quotes(app)["part/one"][0]
    assert text.startswith("First of all.\nThe second one.\n")
    assert len(quotes(app)) == len(index(app)["pages"])


def test_a_sentence_that_is_a_claim_has_its_sign_and_its_scope(house, build):
    edit(house, "# One\n", "# One\n\nFirst\nand second.\n")

    [[text, claims]] = quotes(build())["part/one"]

    [(line, (anchor, sign, scope))] = claims.items()
    assert text.split("\n")[int(line)] == "word is one."
    assert (anchor, sign, scope) == ("word-is-one", "✓", "")


def test_a_result_names_the_chapter_of_its_page(house, build):
    (house / "docs/part/index.md").write_text(
        "# A *part*\n\n```{toctree}\none\ntwo\n```\n"
    )
    front = house / "docs/index.md"
    front.write_text(front.read_text() + "\n```{toctree}\npart/index\n```\n")

    chapters = {page[0]: page[3] for page in index(build())["pages"]}

    assert chapters["part/one"] == "A part"
    assert chapters["part/index"] == chapters["index"] == ""
