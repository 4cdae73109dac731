"""Each rule of the house, broken once, in a house in miniature."""

import pytest

from extensions.lint.rules import RULES
from extensions.prose.rules import citations_are_primary


def problems(house):
    """Return what breaks any rule, as lines with paths from the house."""
    found = [str(each) for rule in RULES for each in rule(house)]
    return [each.removeprefix(f"{house}/") for each in found]


def change(path, old, new):
    """Replace a passage of a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_whole_house_has_no_problem(house):
    assert problems(house) == []


CASES = {
    "a malformed cell name": (
        "snippets/part/one.py",
        "# %% count",
        "# %% Count it",
        "snippets/part/one.py:9: malformed cell name 'Count it'",
    ),
    "a repeated cell name": (
        "snippets/part/one.py",
        "# %% count",
        "# %% start",
        "snippets/part/one.py:9: cell 'start' stands at line 6 already",
    ),
    "a cell that no page shows": (
        "docs/part/one.md",
        "```{cell} count\n```\n",
        "",
        "snippets/part/one.py:9: no page shows cell 'count'",
    ),
    "a cell shown twice": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n```{cell} start\n```\n",
        "docs/part/one.md:6: cell 'start' is shown a second time",
    ),
    "cells out of order": (
        "docs/part/one.md",
        "```{cell} start\n```\n\n",
        "```{cell} count\n```\n\n```{cell} start\n```\n",
        "docs/part/one.md:6: cell 'start' is shown out of file order",
    ),
    "a fenced code block": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n```python\n1\n```\n",
        "docs/part/one.md:3: code on a page",
    ),
    "a claim without a test": (
        "tests/part/test_one.py",
        "def test_word_is_one(",
        "def helper(",
        "docs/part/one.md:6: claim 'word-is-one' has no test"
        " tests/part/test_one.py::test_word_is_one",
    ),
    "a claim without a counter-example": (
        "tests/part/test_one.py",
        "def test_word_is_one__",
        "def helper__",
        "docs/part/one.md:6: claim 'word-is-one' has no counter-example",
    ),
    "a test without a claim": (
        "tests/part/test_one.py",
        "def test_word_is_one(",
        "def test_more(): ...\n\n\ndef test_word_is_one(",
        "tests/part/test_one.py:1: test_more has no claim on part/one",
    ),
    "a claim id used twice": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n[Other]{#word-is-one .claim}.\n",
        "docs/part/one.md:8: claim 'word-is-one' stands at line 3 already",
    ),
    "a malformed claim id": (
        "docs/part/one.md",
        "#word-is-one",
        "#Word_is_one",
        "docs/part/one.md:6: malformed claim id 'Word_is_one'",
    ),
    "a claim without an id": (
        "docs/part/one.md",
        "#word-is-one ",
        "",
        "docs/part/one.md:6: malformed claim id ''",
    ),
    "claims on a page without a snippet": (
        "docs/index.md",
        "# House\n",
        "# House\n\n[It stands]{#it-stands .claim}.\n",
        "docs/index.md:3: claims or cells, and no snippets/index.py",
    ),
    "a counter-example that calls no test": (
        "tests/part/test_one.py",
        "fails(test_word_is_one, ",
        "test_word_is_one(",
        "tests/part/test_one.py:5: test_word_is_one__but_not_of_another does"
        " not show that test_word_is_one fails: write"
        " fails(test_word_is_one, ...) once",
    ),
    "a counter-example that calls another claim's test": (
        "tests/part/test_one.py",
        "fails(test_word_is_one, ",
        "fails(test_word_is_two, ",
        "tests/part/test_one.py:5: test_word_is_one__but_not_of_another does",
    ),
    "a counter-example without a docstring": (
        "tests/part/test_one.py",
        '    """Another word is not one."""\n',
        "",
        "tests/part/test_one.py:5: test_word_is_one__but_not_of_another has"
        " no docstring: say in a sentence when the claim is false",
    ),
    "a variation that expects a failure": (
        "tests/part/test_one.py",
        "__but_not_of_another",
        "__also_of_another",
        "tests/part/test_one.py:5: test_word_is_one__also_of_another expects",
    ),
    "two sentences on one line": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\nFirst this. Then that.\n",
        "docs/part/one.md:3: two sentences on one line",
    ),
    "a second sentence behind a claim": (
        "docs/part/one.md",
        "is one]{#word-is-one .claim}.",
        "is one]{#word-is-one .claim}. `It` is.",
        "docs/part/one.md:6: two sentences on one line",
    ),
    "a page that no toctree lists": (
        "docs/index.md",
        "part/*",
        "part/one",
        "docs/index.md:3: add part/two to this toctree",
    ),
    "a page without a toctree that could list it": (
        "docs/index.md",
        "```{toctree}",
        "```{tally}",
        "docs/index.md:1: no toctree: add one that lists part/one",
    ),
    "a page that does not say what to do": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\nDo it.\n\n## Next\n",
        "docs/part/one.md:1: no section 'Do this'",
    ),
    "a page that ends without saying what is next": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\nDo it.\n\n## Do this\n",
        "docs/part/one.md:1: no section 'Next'",
    ),
    "sections out of order": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\nDo it.\n\n## Next\n\n## More\n\n## Do this\n",
        "docs/part/one.md:9: 'Do this' has to come before 'Next'",
    ),
    "a page that does not say what it is good for": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n## Do this\n\n## Next\n",
        "docs/part/one.md:1: no sentence below the title",
    ),
    "a citation of no primary source": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n[A post](https://example.org/post){.cited} says so.\n",
        "docs/part/one.md:3: cites no primary source of"
        " docs/evidence/primary_sources.toml: https://example.org/post",
    ),
    "a recap of no claim": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n```{recap} word-is-one word-is-two\n```\n",
        "docs/part/one.md:3: a recap of no claim of this page: 'word-is-two'",
    ),
    "a recap of no claim of another page": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n```{recap} part/two#word-is-six\n```\n",
        "docs/part/one.md:3: a recap of no claim of part/two: 'word-is-six'",
    ),
    "an exercise of no counter-example": (
        "docs/part/one.md",
        "# One\n",
        "# One\n\n```{exercise} repair word-is-one\nTry.\n```\n",
        "docs/part/one.md:3: an exercise of no counter-example: 'word-is-one'",
    ),
    "front matter that names no page": (
        "docs/part/one.md",
        "# One\n",
        "---\nread_first: part/nine\n---\n\n# One\n",
        "docs/part/one.md:2: read_first names no page: 'part/nine'",
    ),
    "front matter that nobody reads": (
        "docs/part/one.md",
        "# One\n",
        "---\nread_frist: part/two\n---\n\n# One\n",
        "docs/part/one.md:2: unknown front matter 'read_frist'",
    ),
    "a page named by what no page has": (
        "docs/part/one.md",
        "# One\n",
        "---\nnamed_by: claims\n---\n\n# One\n",
        "docs/part/one.md:2: named_by has to be 'headings', not 'claims'",
    ),
    "words to search by with a comma too many": (
        "docs/part/one.md",
        "# One\n",
        "---\nsearch: leak,, OOM\n---\n\n# One\n",
        "docs/part/one.md:2: search has a comma too many: 'leak,, OOM'",
    ),
    "words to search by said twice": (
        "docs/part/one.md",
        "# One\n",
        "---\nsearch: leak, OOM, Leak\n---\n\n# One\n",
        "docs/part/one.md:2: search says 'Leak', whose words stand there",
    ),
    "words to search by that the page says": (
        "docs/part/one.md",
        "# One\n",
        "---\nsearch: leak, One\n---\n\n# One\n",
        "docs/part/one.md:2: search says 'One', whose words stand there",
    ),
    "too many phrases to search by": (
        "docs/part/one.md",
        "# One\n",
        "---\nsearch: aa, bb, cc, dd, ee, ff, gg, hh, ii\n---\n\n# One\n",
        "docs/part/one.md:2: search has 9 phrases: 8 are enough",
    ),
    "too many words to search by": (
        "docs/part/one.md",
        "# One\n",
        f"---\nsearch: {' '.join(map('w{}'.format, range(2501)))}\n---\n\n"
        "# One\n",
        "docs/part/one.md:2: search has word 2501 of all pages, which have",
    ),
    "front matter without an end": (
        "docs/part/one.md",
        "# One\n",
        "---\nread_first: part/two\n",
        "docs/part/one.md:3: no 'key: value': ''",
    ),
    "an import of ours": (
        "snippets/part/one.py",
        'word = "one"',
        'from extensions.core.topics import ROOT\n\nword = "one"',
        "snippets/part/one.py:7: imports extensions.core.topics",
    ),
    "an import for all cells": (
        "snippets/part/one.py",
        'word = "one"',
        'from __future__ import annotations\n\nword = "one"',
        "snippets/part/one.py:7: on its page this holds for all cells, in a",
    ),
    "an assert in a snippet": (
        "snippets/part/one.py",
        'word = "one"',
        'word = "one"\nassert word',
        "snippets/part/one.py:8: an assert in a snippet",
    ),
    "an exit in a snippet": (
        "snippets/part/one.py",
        'word = "one"',
        'word = "one"\nexit()',
        "snippets/part/one.py:8: a snippet may not end the program",
    ),
    "a snippet that does not parse": (
        "snippets/part/one.py",
        'word = "one"',
        "word = (",
        "snippets/part/one.py:7: '(' was never closed",
    ),
}


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"), CASES.values(), ids=list(CASES)
)
def test_a_broken_rule_is_a_problem_at_its_line(
    house, name, old, new, expected
):
    change(house / name, old, new)

    found = problems(house)

    assert [each for each in found if each.startswith(expected)], found


def test_a_docstring_may_say_why_there_is_no_counter_example(house):
    module = house / "tests/part/test_one.py"
    change(module, "def test_word_is_one__", "def helper__")
    change(module, "(snippet):\n", '(snippet):\n    """A definition."""\n')

    assert problems(house) == []


INDEX = """# Part

- What is it?
  One: [One](one.md).

```{toctree}
one
```
"""


def test_a_page_that_its_chapter_does_not_list_is_named_with_its_line(house):
    (house / "docs/part/index.md").write_text(INDEX)
    change(house / "docs/index.md", "part/*", "part/index")

    assert problems(house) == ["docs/part/index.md:6: add two to this toctree"]


def test_a_page_that_no_question_leads_to_is_named_with_its_line(house):
    index = house / "docs/part/index.md"
    index.write_text(INDEX.replace("\none\n", "\none\nA title <two>\n"))
    change(house / "docs/index.md", "part/*", "part/index")

    assert problems(house) == [
        "docs/part/index.md:6: no question leads to two: add one above this"
        " toctree, '- A question?', and its answer,"
        " '  A rule: [Title](two.md).'"
    ]


SOURCES = """
[[source]]
name = "A documentation"
prefix = "https://docs.example.org/1.0/"
pages = ["guide.html#part", "api.html"]
"""


def test_a_citation_that_is_not_listed_is_a_problem(house):
    path = house / "docs/evidence/primary_sources.toml"
    path.write_text(SOURCES)
    links = "".join(
        f"[It](https://docs.example.org/1.0/{page}){{.cited}} says so.\n"
        for page in ("guide.html#part", "guide.html")
    )
    change(house / "docs/part/one.md", "# One\n", f"# One\n\n{links}")

    assert problems(house) == [
        "docs/part/one.md:4: cites what docs/evidence/primary_sources.toml"
        " does not list: https://docs.example.org/1.0/guide.html",
        "docs/evidence/primary_sources.toml:2: no page cites"
        " https://docs.example.org/1.0/api.html",
    ]


def test_a_section_that_a_correction_names_is_cited(house):
    sources = house / "docs/evidence/primary_sources.toml"
    sources.write_text(SOURCES)
    correction = house / "docs/evidence/corrections/part/one.toml"
    correction.parent.mkdir(parents=True, exist_ok=True)
    correction.write_text('[[correction]]\nsection = "api.html"\n')

    assert [
        str(each).partition("/1.0/")[2]
        for each in citations_are_primary(house)
    ] == ["guide.html#part"]


BROKEN_SOURCES = {
    "no whole address": ("api.html", "api.html?q=1 2"),
    "a prefix ends with a slash": ("1.0/", "1.0"),
    "a source has no pages, or not as list": ("pages", "page"),
}


@pytest.mark.parametrize("message", BROKEN_SOURCES)
def test_a_broken_list_of_sources_is_a_problem(house, message):
    path = house / "docs/evidence/primary_sources.toml"
    path.write_text(SOURCES.replace(*BROKEN_SOURCES[message]))

    assert problems(house)[0].startswith(
        f"docs/evidence/primary_sources.toml:2: {message}"
    )


def test_a_missing_gallery_header_is_a_problem(house):
    (house / "snippets/part/GALLERY_HEADER.rst").unlink()

    assert problems(house)[0].startswith(
        "snippets/part/GALLERY_HEADER.rst:1: missing gallery header"
    )


def test_a_program_with_a_space_in_its_name_is_a_problem(house):
    snippet = house / "snippets/part/one.py"
    snippet.rename(snippet.with_name("number one.py"))

    assert (
        "snippets/part/number one.py:1: malformed name 'part/number one':"
        " write lower-case words joined by underscores"
    ) in problems(house)


def test_a_snippet_without_a_page_is_a_problem(house):
    (house / "docs/part/one.md").unlink()

    assert "snippets/part/one.py:1: no page part/one shows it" in problems(
        house
    )


def test_a_test_module_that_is_lost_without_a_library_is_a_problem(house):
    path = house / "tests/part/test_one.py"
    load = "from sklearn.datasets import load_digits\n"
    path.write_text(
        f"import numpy\nfrom torch import nn\n{load}{path.read_text()}"
    )

    assert problems(house) == [
        "tests/part/test_one.py:3: imports sklearn, without which none of"
        " these tests runs: use it through the program, or import it in a"
        " test, with pytest.importorskip"
    ]


def test_a_test_module_without_a_snippet_is_a_problem(house):
    (house / "tests/part/test_lost.py").touch()

    assert problems(house) == [
        "tests/part/test_lost.py:1: mirrors no snippet snippets/part/lost.py"
    ]


VARYING = {
    "a memory address": "print(object())",
    "an absolute path": "import os; print(os.sep + os.path.join('a', 'b'))",
    "a date": "print('on 2026-01-31')",
    "a duration": "print('took 12.5 ms')",
}


@pytest.mark.parametrize("what", VARYING)
def test_an_output_that_varies_is_a_problem_at_its_line(house, build, what):
    snippet = house / "snippets/part/one.py"
    change(snippet, 'print(word, "counted")', VARYING[what])

    build()

    [problem] = problems(house)
    assert problem.startswith(
        f"snippets/part/one.py:10: an output shows {what}: "
    )
