"""Each rule of the house, broken once, in a house in miniature."""

import re

import pytest

from extensions.lint import RULES, problems_of

INDEX = "docs/index.md"
PAGE = "docs/part/one.md"
SNIPPET = "snippets/part/one.py"
TESTS = "tests/part/test_one.py"


def problems(house):
    """Return what breaks any rule, as lines with paths from the house."""
    found = problems_of(house, RULES)
    return [f"{each}".removeprefix(f"{house}/") for each in found]


def change(path, old, new):
    """Replace a passage of a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_whole_house_has_no_problem(house):
    assert problems(house) == []


# What is written below the title of a page, and the problem at its line.
BELOW_TITLE = {
    "```{cell} start\n```": "6: cell 'start' is shown a second time",
    "```python\n1\n```": "3: code on a page",
    "[Other]{#word-is-one .claim}.": "8: claim 'word-is-one' stands at line 3",
    "First this. Then that.": "3: two sentences on one line",
    "Do it.\n\n## Read on": "1: no section 'Do this'",
    "Do it.\n\n## Do this": "1: no section 'Read on'",
    "It.\n\n## Read on\n\n## Do this": (
        "7: 'Do this' has to come before 'Read on'"
    ),
    "## Do this\n\n## Read on": "1: no sentence below the title",
    "[A](https://example.org/a){.cited} says so.": "3: cites what"
    " docs/evidence/primary_sources.toml does not list: https://example.org/a",
}


@pytest.mark.parametrize("words", BELOW_TITLE)
def test_what_a_page_may_not_say_is_a_problem_at_its_line(house, words):
    change(house / PAGE, "# One\n", f"# One\n\n{words}\n")

    found = problems(house)

    assert found[0].startswith(f"{PAGE}:{BELOW_TITLE[words]}"), found


# Front matter, and the problem at its second line.
FRONTS = {
    "read_first: part/nine": "read_first names no page: 'part/nine'",
    "read_frist: part/two": "unknown front matter 'read_frist'",
    "search: leak,, OOM": "search says '', whose words stand there already",
    "search: leak, OOM, Leak": "search says 'Leak', whose words stand there",
    "search: leak, One": "search says 'One', whose words stand there already",
    "search: aa, bb, cc, dd, ee, ff, gg, hh, ii": "search has 9 phrases: 8",
}


@pytest.mark.parametrize("front", FRONTS, ids=lambda front: front[:30])
def test_front_matter_that_nobody_can_use_is_a_problem(house, front):
    page = house / PAGE
    page.write_text(f"---\n{front}\n---\n\n{page.read_text()}")

    [problem] = problems(house)

    assert problem.startswith(f"{PAGE}:2: {FRONTS[front]}")


# A file, what is replaced in it and by what; the line, and what is said of it.
FUTURE = "from __future__ import annotations"
CASES = [
    (SNIPPET, "# %% count", "# %% Count it", "9: malformed cell name 'Count"),
    (SNIPPET, "# %% count", "# %% start", "9: 'start' stands at line 6"),
    (SNIPPET, "# %%", "assert 1\n# %%", "6: an assert in a snippet"),
    (SNIPPET, "# %%", "import tests.a\n# %%", "6: imports tests.a"),
    (SNIPPET, "word = ", f"{FUTURE}\n\nword = ", "7: on its page this holds"),
    (PAGE, "```{cell} start\n```", "", f"{SNIPPET}:6: no page shows cell"),
    (PAGE, "} start", "} count", "8: 'count' is shown a second time"),
    (PAGE, "} start", "} count\n```\n```{cell} start", "5: 'start' is shown"),
    (PAGE, "#word-is-one", "#Word_is_one", "6: malformed claim id 'Word_is"),
    (PAGE, "#word-is-one ", "", "6: malformed claim id ''"),
    (PAGE, ".claim}.", ".claim}. `It` is.", "6: two sentences on one line"),
    (TESTS, "def test_word_is_one(", "def helper(", f"{PAGE}:6: has no test"),
    (TESTS, "def test_word_is_one_", "def no", f"{PAGE}:6: no counter-exam"),
    (TESTS, "def test_w", "def test_m(): ...\ndef test_w", "6: has no claim"),
    (TESTS, "fails(test_word_is_one, ", "test_word_is_one(", "5: does not"),
    (TESTS, "fails(test_word_is_one", "fails(test_word_is_two", "5: does not"),
    (TESTS, '"""Another word is not one."""', "", "5: has no docstring"),
    (TESTS, "__but_not_of_another", "__also", "5: expects"),
    (INDEX, "# House\n", "# House\n\n[It]{#it .claim}.\n", "3: claims or"),
]


@pytest.mark.parametrize(("name", "old", "new", "said"), CASES)
def test_a_broken_rule_is_a_problem_at_its_line(house, name, old, new, said):
    change(house / name, old, new)

    found = problems(house)

    place, _, what = said.rpartition(": ")
    place = place if ":" in place else f"{name}:{place}"
    at_place = [each for each in found if each.startswith(f"{place}: ")]
    assert any(what in each for each in at_place), found


def test_a_docstring_may_say_why_there_is_no_counter_example(house):
    change(house / TESTS, "def test_word_is_one__", "def helper__")
    why = '(snippet):\n    """A definition."""\n'
    change(house / TESTS, "(snippet):\n", why)

    assert problems(house) == []


ANSWERS = """# Part

- What is it?
  One: [One](one.md).

```{toctree}
one
A title <two>
```
"""


def test_the_index_of_a_chapter_leads_to_each_page(house):
    (house / "docs/part/index.md").write_text(ANSWERS)
    change(house / "docs/index.md", "part/*", "part/index")

    assert problems(house) == [
        "docs/part/index.md:6: no question leads to two: add one above this"
        " toctree, '- A question?', and its answer,"
        " '  A rule: [Title](two.md).'"
    ]


SOURCES = "docs/evidence/primary_sources.toml"
LISTED = """
[[source]]
name = "A documentation"
prefix = "https://docs.example.org/1.0/"
pages = ["guide.html#part", "api.html", "more.html"]
"""


def test_what_is_cited_is_listed_and_what_is_listed_is_cited(house):
    (house / SOURCES).write_text(LISTED)
    links = "".join(
        f"[It](https://docs.example.org/1.0/{page}){{.cited}} says so.\n"
        for page in ("guide.html#part", "guide.html")
    )
    change(house / PAGE, "# One\n", f"# One\n\n{links}")
    correction = house / "docs/evidence/corrections/part/one.toml"
    correction.parent.mkdir(parents=True)
    correction.write_text(
        '[[correction]]\nsource = "A documentation"\nsection = "more.html"\n'
        'said = "a"\nholds = "b"\nclaim = "word-is-one"\n'
    )

    assert [each for each in problems(house) if "cites" in each] == [
        f"{PAGE}:4: cites what {SOURCES} does not list:"
        " https://docs.example.org/1.0/guide.html",
        f"{SOURCES}:2: no page cites https://docs.example.org/1.0/api.html",
    ]


def test_a_module_of_tests_that_mirrors_no_program_is_a_problem(house):
    name = "tests/part/test_lost.py"
    (house / name).write_bytes((house / TESTS).read_bytes())

    said = f"{name}:1: mirrors no snippet snippets/part/lost.py"
    assert said in problems(house)


def test_a_snippet_without_a_page_is_a_problem(house):
    (house / PAGE).unlink()

    assert f"{SNIPPET}:1: no page part/one shows it" in problems(house)


def test_a_test_module_that_is_lost_without_a_library_is_a_problem(house):
    path = house / TESTS
    load = "from sklearn.datasets import load_digits\n"
    path.write_text(f"import numpy\n{load}{path.read_text()}")

    assert problems(house) == [
        f"{TESTS}:2: imports sklearn, without which none of these tests runs:"
        " use it through the program, or import it in a test, with"
        " pytest.importorskip"
    ]


def test_an_output_that_varies_is_a_problem_at_its_line(house):
    varying = "<object at 0x7f7042> on 2026-01-31, took 12.5 ms, in /a/b"
    change(house / "docs/code/part/one.outputs.json", "one counted", varying)

    shown = re.findall(
        rf"{SNIPPET}:10: an output shows (.*?):", "\n".join(problems(house))
    )
    assert {*shown} == {
        "a memory address",
        "an absolute path",
        "a date",
        "a duration",
    }
