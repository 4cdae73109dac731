"""What a notebook shows of a page: plain Markdown, and the cells."""

from textwrap import dedent

import pytest

from extensions.core.markdown import BROADCASTING, TABLE
from extensions.core.topics import Topic
from extensions.notebooks.export import export_page

SITE = "https://example.org/guide/"


@pytest.fixture
def exported(house):
    """Export a page of a topic that holds a text."""
    topic = Topic(house, "part/one")

    def exported(text, base=""):
        topic.page.write_text(dedent(text))
        return export_page(topic, base)

    return exported


@pytest.fixture
def words(exported):
    """Export a page without cells; return its Markdown."""

    def words(text, base=""):
        page = exported(text, base)
        assert page.words.problems == []
        [markdown] = page.pieces
        return markdown

    return words


@pytest.fixture
def said(exported):
    """Export a page; return the lines and the messages of its problems."""

    def said(text):
        return [
            (each.line, each.message) for each in exported(text).words.problems
        ]

    return said


@pytest.mark.parametrize(
    "cell",
    [
        "```{cell} count\n```\n",
        "```{cell} count\n```",
        "```{cell}   count  \n```\n",
        "`````{cell} count\n`````\n",
        "~~~{cell} count\n~~~\n",
        ":::{cell} count\n:::\n",
        ":::::{cell} count\n:::::",
        "```{cell} count\n:folded: A *title*\n```\n",
        "```{cell} count\n---\nopen:\n---\n```\n",
    ],
)
def test_a_cell_is_found_behind_any_fence(exported, cell):
    words, found = exported(f"Words.\n\n{cell}").pieces

    assert words == "Words."
    assert found.cell.name == "count"


@pytest.mark.parametrize(
    ("options", "fold"),
    [
        ("", ""),
        (":folded: A title\n", "A title"),
        (":folded:\n", "How this was made"),
    ],
)
def test_a_cell_that_folds_has_the_words_of_its_fold(exported, options, fold):
    [found] = exported(f"```{{cell}} count\n{options}```").pieces

    assert found.fold == fold


def test_a_cell_that_only_draws_folds_unless_the_page_opens_it(
    exported, house
):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + "\n# %% draw\nimport pandas\n")
    page = exported("```{cell} draw\n```\n\n```{cell} draw\n:open:\n```")

    assert [each.fold for each in page.pieces] == ["How this was made", ""]


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("", "So `a` is one ✓."),
        (
            "https://a.org",
            'So `a` is one [✓](https://a.org/part/one.html#a "Tested: see what'
            ' would make this false").',
        ),
    ],
)
def test_the_words_of_a_claim_are_followed_by_its_sign(house, base, expected):
    topic = Topic(house, "part/one")
    topic.page.write_text("So [`a` is one]{#a .claim}.")

    assert export_page(topic, base, {"a": "passed"}).pieces == [expected]


def test_a_claim_of_which_nothing_is_known_has_no_sign(house):
    topic = Topic(house, "part/one")
    topic.page.write_text("[One]{#a .claim} and [two]{#b .claim}.")

    page = export_page(topic, "", {"a": "missing", "b": "not run"})

    assert page.pieces == ["One and two ○."]


def test_a_claim_of_a_recipe_has_its_sign(house):
    page = export_page(
        Topic(house, "gallery/three"), "", {"one-line-is-drawn": "failed"}
    )

    assert page.pieces[0] == "# Three\n\nOne line is drawn. ✗"


def test_a_cell_inside_boxes_stands_between_their_words(exported):
    before, found, after = exported("""\
        :::::{fold} See all
        Before.

        ::::{note} At once.
        ```{cell} count
        ```
        ::::

        After.
        :::::
        """).pieces

    assert before == "**See all**\n\nBefore.\n\n**Note**\n\nAt once."
    assert found.cell.name == "count"
    assert after == "After."


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[It holds]{#it-holds .claim}.", "It holds."),
        ("[`x[0]` is *1*]{#x .claim}.", "`x[0]` is *1*."),
        (
            "[So [says](https://a.org) it]{.claim #x}",
            "So [says](https://a.org) it",
        ),
        ("[a\nb]{#x .claim}\nc", "a\nb\nc"),
        ("[a](https://a.org){.cited}", "[a](https://a.org)"),
        ("A list `[1]` of [brackets].", "A list `[1]` of [brackets]."),
        ("{doc}`A page </part/two>`.", "A page."),
        ("{doc}`/part/two`.", "Two."),
        ("{doc}`two`.", "Two."),
        ("{doc}`/gallery/three`.", "Three."),
        ("{doc}`/gallery/index`.", "Recipes."),
        ("{download}`All </code/a.zip>`.", "All."),
        ("{download}`/code/a.zip`.", "a.zip."),
        (
            "See [it](two.md#c), [here](#d) or [there](label).",
            "See it, here or there.",
        ),
        ("[](two.md)", "Two"),
        ("```{measured}\n```", "The page shows what was measured."),
        (
            "```{broadcasting}\n```",
            f"{BROADCASTING}\n\nThe page lets you try others.",
        ),
        ("---\nhide-toc: true\n---\n\n# One", "# One"),
        ("(a-label)=\n# One\n\n% a remark\n\n+++\n\nEnd.", "# One\n\nEnd."),
        ("```{tip}\nDo.\n```", "**Tip**\n\nDo."),
        ("```{warning} Do not.\n```", "**Warning**\n\nDo not."),
        (":::{admonition} A `b`\n:class: c\n\nDo.\n:::", "**A `b`**\n\nDo."),
        ("|a|\n|-|\n|[c]{#c .claim}|", "|a|\n|-|\n|c|"),
        (
            "`[a]{#b .claim}` ``{doc}`two` `` [`]`]{#b .claim}",
            "`[a]{#b .claim}` ``{doc}`two` `` `]`",
        ),
    ],
)
def test_a_page_becomes_plain_markdown(words, text, expected):
    assert words(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[a](two.md#c)", "[a](https://example.org/guide/part/two.html#c)"),
        ("[a](/part/two.md)", "[a](https://example.org/guide/part/two.html)"),
        ("[a](#c)", "[a](https://example.org/guide/part/one.html#c)"),
        ("[a](label)", "a"),
        (
            "{doc}`../gallery/three`",
            "[Three](https://example.org/guide/gallery/three.html)",
        ),
        (
            "{download}`All </code/a.zip>`",
            "[All](https://example.org/guide/part/one.html)",
        ),
        (
            "```{measured}\n```",
            "[The page](https://example.org/guide/part/one.html)"
            " shows what was measured.",
        ),
    ],
)
def test_links_lead_to_the_site_if_its_address_is_known(words, text, expected):
    assert words(text, SITE) == expected


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("# T\n\n```{figure} a.png\n```", 3, f"{{figure}}: see {TABLE}"),
        (
            "# T\n\n::::{note}\n:class: a\n\n:::{card}\n:::\n::::",
            6,
            f"{{card}}: see {TABLE}",
        ),
        ("# T\n\nA\nb {math}`x`.", 4, f"{{math}}: see {TABLE}"),
        ("# T\n\n![a](b.png)", 3, "a picture of the page"),
        ("# T\n\n[a](project:b)", 3, "a link of project:"),
        ("# T\n\n{doc}`/lost`", 3, "the title of /lost: no such page"),
        ("# T\n\na[^1]\n\n[^1]: b", 3, "a footnote"),
        (
            "# T\n\n- a\n\n  ```{cell} b\n  ```",
            5,
            "{cell} inside a list or a quotation",
        ),
    ],
)
def test_what_no_notebook_can_show_is_a_problem(said, text, line, what):
    assert (line, f"a notebook cannot show {what}") in said(text)


def test_nothing_raw_is_left_of_a_problem(exported):
    page = exported("One.\n\n:::{card}\nRaw.\n:::\n\n{math}`x`![a](b.png)two")

    assert page.pieces == ["One.\n\ntwo"]


RECIPE = '''"""
Title
=====

Run it::

    one ::two

It *has* ``code``.
"""

# %% first
#
# Part
# ----
#
# .. _words-are-true:
#
# See :doc:`/part/one`, or :doc:`that <one>`.

import one

# %% last
#
# .. note:: Mind.

two = 2
# %% picture
plt.subplots(num="timings")
plt.title("Times")
plt.show()
'''


def test_a_recipe_is_exported_as_the_page_that_it_would_be(house):
    recipe = Topic(house, "gallery/three")
    recipe.page.write_text(RECIPE)

    found = export_page(recipe, SITE)

    address = f"{SITE}part/one.html"
    opening, first, last, picture, page = found.pieces
    assert opening == (
        "# Title\n\nRun it:\n\n    one ::two\n\nIt *has* `code`.\n\n"
        f"## Part\n\nSee [One]({address}), or that."
    )
    names = [each.cell.name for each in (first, last, picture)]
    assert names == ["first", "last", "picture"]
    assert page.endswith("shows what was measured.")
    [problem] = found.words.problems
    assert (problem.path, problem.line) == (recipe.page, 25)
    assert problem.message == "a notebook cannot show {note}: see " + TABLE
