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
ERRORS = """# Errors

## No word

```{error-text}
:also: no word in (3,) | word is missing

Give it one.
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
        "docs/errors.md": ERRORS,
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

    (_, first, prose, *_), (anchor, second, below, code, *_) = page[-1]
    assert page[:4] == ["part/one", "part/one.html", "One", "A part"]
    assert (first, second, anchor) == ("One", "Count", "count")
    assert prose.startswith("First of all.\nThe second one.\nword is one.")
    assert "Below" not in prose
    assert below == "Below.\nA LOCAL WORD"  # which the cell has printed
    assert "upper" in code.split()
    assert "local" not in code.split()


def test_of_a_page_its_claims_and_other_names_are_known(site):
    *_, also, [first, _] = page_of(site, "part/one")

    assert first[4] == {"2": ["word-is-one", "✓"]}
    assert also == "leak, OOM"
    assert "OOM" not in (site.outdir / "part/one.html").read_text()
    assert script(site)[1] == [["OOM", "out of memory"]]


def test_of_a_section_its_error_texts_are_known(site):
    first, entry = page_of(site, "errors")[-1]

    assert first[-1] == []
    assert entry[1] == "No word"
    assert entry[-1] == ["no word in (3,)", "word is missing"]
    assert entry[2].endswith("\nGive it one.")


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
