"""What a page and a recipe hold."""

from textwrap import dedent

import pytest

from extensions.claims.page import Claim, NamedItem, read_page


@pytest.fixture
def read(tmp_path):
    """Read a page, or with another name a recipe, that holds a text."""

    def read(text, name="page.md"):
        path = tmp_path / name
        path.write_text(dedent(text))
        return read_page(path)

    return read


def test_a_claim_keeps_its_words_and_its_line(read):
    page = read("""\
        # Title

        Look: [`a[0]` is
        *very* small]{#a-is-small .claim}.
        And [another]{.claim #other}.
        """)

    assert page.claims == [
        Claim("a-is-small", "`a[0]` is very small", 3),
        Claim("other", "another", 5),
    ]


def test_a_claim_in_a_note_is_found(read):
    page = read("""\
        # Title

        :::{note}
        See [this]{#this .claim}.
        :::
        """)

    assert page.claims == [Claim("this", "this", 4)]


def test_a_claim_without_an_id_has_an_empty_name(read):
    assert read("[words]{.claim}\n").claims == [Claim("", "words", 1)]


def test_another_span_is_no_claim(read):
    assert read("[words]{#id .other}\n").claims == []


def test_a_cell_is_found_at_its_line(read):
    assert read("# T\n\n```{cell} step\n```\n").cells == [NamedItem("step", 3)]


@pytest.mark.parametrize(
    "code",
    [
        "```python\n1\n```",
        "~~~\n1\n~~~",
        "```{code-block} python\n1\n```",
        "```{literalinclude} a.py\n```",
        "    indented = 1",
    ],
)
def test_code_on_a_page_is_found_at_its_line(read, code):
    assert read(f"# T\n\nWords.\n\n{code}\n").code == [5]


def test_code_in_a_list_or_a_note_is_found(read):
    assert read("- item\n\n  ```python\n  1\n  ```\n").code == [3]
    assert read("```{note}\nWords\n\n~~~\n1\n~~~\n```\n").code == [4]


def test_a_recipe_claims_by_paragraph(read):
    page = read(
        """\
        # %% step
        #
        # .. _it-grows:
        #
        # The ``sum`` grows
        # with each step.
        #
        # Other words.

        x = 1
        """,
        "recipe.py",
    )

    assert page.claims == [
        Claim("it-grows", "The `sum` grows with each step.", 5)
    ]


def test_a_page_that_is_missing_holds_nothing(tmp_path):
    assert read_page(tmp_path / "lost.md").claims == []


def test_options_are_no_part_of_what_a_directive_shows(read):
    page = read("""\
        ::::{admonition} Title
        :class: tip
        See [this]{#this .claim}.

        :::{cell} step
        :wrong: why
        :::
        ::::
        """)

    assert page.claims == [Claim("this", "this", 3)]
    assert page.cells == [NamedItem("step", 5)]
