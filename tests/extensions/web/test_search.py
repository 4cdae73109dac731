"""What the search knows of each page, its boxes, and what a page loads."""

import json

import pytest

from tests.helpers.builds import built
from tests.helpers.evidence import record

PAGE = """---
search: leak, OOM
---

# One

First of all.
The second one.
[`word` is one]{#word-is-one .claim}.

```{cell} start
:folded:
```

## Count

Below.

```{cell} count
```
"""
CHAPTER = """# A *part*

```{toctree}
one
two
```
"""
GLOSSARY = """# Words

Look up.

```{glossary}
leaf
  What nothing has made.
```
"""
CORRECTION = """[[correction]]
source = "A"
section = "1"
said = "It is zero."
holds = "It is unity."
claim = "word-is-one"
"""
PROGRAM = '''"""
One
===
"""

# %% start
word = "one"
"".casefold()

# %% count
local = "A local word"
print(local.upper())
'''


@pytest.fixture(scope="module")
def site(new_house):
    """A site with some pages of each kind."""
    house = new_house()
    for name, text in {
        "docs/part/one.md": PAGE,
        "docs/part/index.md": CHAPTER,
        "docs/glossary.md": GLOSSARY,
        "docs/errors.md": "# Errors\n\n```{entries} Yours\n```\n",
        "docs/evidence/claims.md": "# Rows\n\n```{corrections}\n```\n",
        "docs/evidence/corrections/part/one.toml": CORRECTION,
        "docs/synonyms.toml": '"OOM" = "out of memory"\n',
        "snippets/part/one.py": PROGRAM,
    }.items():
        (house / name).parent.mkdir(parents=True, exist_ok=True)
        (house / name).write_text(text)
    front = house / "docs/index.md"
    toctree = "\n```{toctree}\npart/index\nglossary\nerrors\n```\n"
    box = '\n```{search-box} Search "all" of it\n```\n'
    front.write_text(front.read_text() + toctree + box)
    record(house)
    return built(house)


def script(app):
    """Return the pages and the synonyms that a browser gets."""
    text = (app.outdir / "search-index.js").read_text("utf-8")
    return json.loads(text.partition(" = ")[2].rstrip().rstrip(";"))


def page_of(app, name):
    """Return what is found of a page."""
    [page] = [page for page in script(app)[0] if page[0] == name]
    return page


def test_a_page_is_found_by_title_heading_prose_and_names_of_code(site):
    page = page_of(site, "part/one")

    (_, first, prose, *_), (anchor, second, below, code, _) = page[-1]
    assert page[:4] == ["part/one", "part/one.html", "One", "A part"]
    assert (first, second, anchor) == ("One", "Count", "count")
    assert prose.startswith("First of all.\nThe second one.\nword is one.")
    assert "Below" not in prose
    assert below == "Below.\nA LOCAL WORD"  # which the cell has printed
    assert "upper" in code.split()
    assert "local" not in code.split()


def test_a_sentence_that_is_a_claim_has_its_sign(site):
    [first, _] = page_of(site, "part/one")[-1]

    assert first[4] == {"2": ["word-is-one", "✓"]}


def test_words_of_the_front_matter_are_found_and_not_shown(site):
    assert page_of(site, "part/one")[4] == "leak, OOM"
    assert "OOM" not in (site.outdir / "part/one.html").read_text()
    assert script(site)[1] == [["OOM", "out of memory"]]


def test_a_page_of_entries_is_found_by_a_heading_that_is_pasted(site):
    assert page_of(site, "errors")[5] is True
    assert page_of(site, "part/one")[5] is False


def test_folded_code_and_panels_are_not_found(site):
    said = json.dumps(page_of(site, "part/one"))

    assert "casefold" not in said
    assert "without_one" not in said  # an edit of a counter-example
    assert "2.13.0" not in said


def test_corrections_are_found_by_their_rows_and_terms_at_their_place(site):
    [[_, _, text, *_]] = page_of(site, "evidence/claims")[-1]
    first, leaf = page_of(site, "glossary")[-1]

    assert text == "It is zero. It is unity."
    assert first[:4] == ["", "Words", "Look up.", ""]
    assert leaf[:4] == ["term-leaf", "leaf", "What nothing has made.", ""]


def test_a_page_that_is_gone_is_not_found(house, build):
    page = house / "docs/more.md"
    page.write_text("# More\n")
    top = house / "docs/index.md"
    text = top.read_text()
    top.write_text(text.replace("part/*", "part/*\nmore"))
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


def test_a_page_has_a_box_of_its_own(site):
    html = (site.outdir / "index.html").read_text()

    [_, box] = html.split('<form class="site-search page-search-container"')
    assert 'placeholder="Search &#34;all&#34; of it"' in box
    assert 'aria-controls="page-search-results"' in box
    assert 'id="page-search-results" role="listbox"' in box


def test_no_page_loads_what_nothing_on_it_needs(site):
    page = (site.outdir / "part/one.html").read_text()

    assert "documentation_options.js" in page
    assert "claims.js" in page
    assert "doctools.js" not in page
    assert "sphinx_highlight.js" not in page
    assert "claims.js" not in (site.outdir / "glossary.html").read_text()
