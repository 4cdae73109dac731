"""What a notebook shows of a page: plain Markdown, and the cells."""

from textwrap import dedent

import pytest

from extensions.core.markdown import BROADCASTING, TABLE
from extensions.core.topics import Topic
from extensions.notebooks.export import export_page

SITE = "https://example.org/guide/"


@pytest.fixture
def export(house):
    """Export the page of a topic, with another text."""
    topic = Topic(house, "part/one")

    def export(text, base="", **options):
        topic.page.write_text(dedent(text))
        return export_page(topic, base, **options)

    return export


@pytest.mark.parametrize(
    ("options", "fold"),
    [
        ("count\n", ""),
        ("count\n:folded: A title\n", "A title"),
        ("count\n:folded:\n", "How this was made"),
        ("draw\n", "How this was made"),
        ("draw\n:open:\n", ""),
    ],
)
def test_a_cell_folds_as_on_the_page(export, house, options, fold):
    with (house / "snippets/part/one.py").open("a") as file:
        file.write("\n# %% draw\nimport pandas\n")

    [found] = export(f"```{{cell}} {options}```").pieces

    assert found.fold == fold


def test_a_claim_is_followed_by_its_sign(export):
    text = "[One]{#a .claim}, [two]{#b .claim}, [three]{#c .claim}."
    verdicts = {"a": "passed", "b": "not run", "c": "missing"}
    tip = '"Tested: see what would make this false"'

    [words] = export(text, verdicts=verdicts).pieces
    [linked] = export(text, SITE, verdicts=verdicts).pieces

    assert words == "One ✓, two ○, three."
    assert linked.startswith(f"One [✓]({SITE}part/one.html#a {tip}), two")


def test_a_cell_inside_boxes_stands_between_their_words(export):
    before, found, after = export("""\
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


LINKS = [
    ("{doc}`A page </part/two>`.", f"[A page]({SITE}part/two.html)."),
    ("{doc}`two`", f"[Two]({SITE}part/two.html)"),
    ("{doc}`/gallery/three`", f"[Three]({SITE}gallery/three.html)"),
    ("{doc}`/gallery/index`", f"[Recipes]({SITE}gallery/index.html)"),
    ("{download}`All </code/a.zip>`", f"[All]({SITE}part/one.html)"),
    ("{download}`/code/a.zip`", f"[a.zip]({SITE}part/one.html)"),
    ("[a](two.md#c)", f"[a]({SITE}part/two.html#c)"),
    ("[a](/part/two.md)", f"[a]({SITE}part/two.html)"),
    ("[a](#c)", f"[a]({SITE}part/one.html#c)"),
    ("[](two.md)", f"[Two]({SITE}part/two.html)"),
    (
        "```{measured}\n```",
        f"[The page]({SITE}part/one.html) shows what was measured.",
    ),
]


@pytest.mark.parametrize(("text", "expected"), LINKS)
def test_links_lead_to_the_site_if_its_address_is_known(
    export, text, expected
):
    assert export(text, SITE).pieces == [expected]


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
        ("[a](label)", "a"),
        ("A list `[1]` of [brackets].", "A list `[1]` of [brackets]."),
        ("See [it](two.md#c) or {doc}`two`.", "See it or Two."),
        (
            "```{broadcasting}\n```",
            f"{BROADCASTING}\n\nThe page lets you try others.",
        ),
        ("---\nhide-toc: true\n---\n\n# One", "# One"),
        ("(a-label)=\n# One\n\n% a remark\n\nEnd.", "# One\n\nEnd."),
        ("```{error-text} part/one count\n:says: a\n\nDo.\n```", "Do."),
        ("```{tip}\nDo.\n```", "**Tip**\n\nDo."),
        ("```{warning} Do not.\n```", "**Warning**\n\nDo not."),
        (":::{admonition} A `b`\n:class: c\n\nDo.\n:::", "**A `b`**\n\nDo."),
        ("|a|\n|-|\n|[c]{#c .claim}|", "|a|\n|-|\n|c|"),
        (
            "`[a]{#b .claim}` ``{doc}`two` `` [`]`]{#b .claim}",
            "`[a]{#b .claim}` ``{doc}`two` `` `]`",
        ),
        (
            "```{recap} part/two#word-is-two\n```",
            "- `word` is two",
        ),
    ],
)
def test_a_page_becomes_plain_markdown(export, text, expected):
    page = export(text)

    assert page.pieces == [expected]
    assert page.problems == []


def test_what_no_notebook_can_show_is_reported_and_left_out(export):
    page = export(
        "One.\n\n::::{note}\n:class: a\n\n:::{card}\nRaw.\n:::\n::::\n\n"
        "{math}`x`\n![a](b.png)two"
    )

    assert page.pieces == ["One.\n\n**Note**\n\ntwo"]
    assert [(each.line, each.message) for each in page.problems] == [
        (6, f"a notebook cannot show {{card}}: see {TABLE}"),
        (11, f"a notebook cannot show {{math}}: see {TABLE}"),
        (12, "a notebook cannot show ![a](b.png)"),
    ]


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

    found = export_page(recipe, SITE, {"words-are-true": "failed"})

    address = f"{SITE}part/one.html"
    opening, first, last, picture, page = found.pieces
    assert opening.startswith(
        "# Title\n\nRun it:\n\n    one ::two\n\nIt *has* `code`.\n\n"
        f"## Part\n\nSee [One]({address}), or that. [✗]({SITE}gallery/three"
    )
    names = [each.cell.name for each in (first, last, picture)]
    assert names == ["first", "last", "picture"]
    assert page.endswith("shows what was measured.")
    [problem] = found.problems
    assert (problem.path, problem.line) == (recipe.page, 1)
    assert problem.message == "a notebook cannot show {note}: see " + TABLE
