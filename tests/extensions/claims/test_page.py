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
        [No claim]{#id .other}, [nameless]{.claim}.

        ::::{admonition} Title
        :class: tip
        See [this]{#this .claim}.
        ::::
        """)

    assert page.claims == [
        Claim("a-is-small", "`a[0]` is very small", 3),
        Claim("other", "another", 5),
        Claim("", "nameless", 6),
        Claim("this", "this", 10),
    ]


def test_a_claim_shows_as_a_sentence_without_its_line():
    claim = Claim("its-name", "a layer stays frozen", 1)

    assert claim.sentence == "A layer stays frozen"
    assert Claim("its-name", "`backward` adds up", 1).sentence[0] == "`"
    assert repr(claim) == repr(Claim("its-name", claim.text, 2))


def test_cells_and_claims_are_found_where_directives_name_them(read):
    page = read("""\
        ````{note}
        ```{cell} step
        :wrong: why
        ```
        ````

        ```{cell} other
        :from: data/loading
        ```

        ```{exercise} build solution check
        Write.
        ```

        ```{exercise} repair it-grows__but-not
        Repair.
        ```

        ```{recap} it-grows page#other
        ```
        """)

    assert page.cells == [
        NamedItem("step", 2),
        NamedItem("solution", 11),
        NamedItem("check", 11),
    ]
    assert page.recapped == [
        NamedItem("it-grows", 19),
        NamedItem("page#other", 19),
    ]


@pytest.mark.parametrize(
    "code",
    [
        "```python\n1\n```",
        "~~~\n1\n~~~",
        "```{code-block} python\n1\n```",
        "```{literalinclude} a.py\n```",
        "    indented = 1",
        "- item\n  ```python\n  1\n  ```",
        "```{note}\n~~~\n1\n~~~\n```",
    ],
)
def test_code_on_a_page_is_found_at_its_line(read, code):
    line = 6 if code[:2] == "- " or "note" in code else 5

    assert read(f"# T\n\nWords.\n\n{code}\n").code == [line]


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
