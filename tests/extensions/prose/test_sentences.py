"""Which sentences pages and recipes have, and what they rest on."""

import pytest

from extensions.prose.sentences import in_markdown, prose_of, sentences_of


def found(text):
    """Return line, kind and words of each sentence of some Markdown."""
    return [(each.line, each.kind, each.text) for each in in_markdown(text, 1)]


def test_each_line_of_a_paragraph_is_a_sentence():
    assert found("# Title\n\nOne.\n`two` is\n") == [
        (3, "neither", "One."),
        (4, "neither", "`two` is"),
    ]


def test_a_claim_proves_its_sentence_and_a_link_may_cite():
    text = (
        "So [it\nis]{#it-is .claim}, as [said](https://a.b/){.cited}.\n"
        "See [there](https://a.b/c#d){.cited}.\n"
        "See [here](https://a.b/c#d).\n"
    )

    assert [(each.kind, each.cited) for each in in_markdown(text, 1)] == [
        ("proven", ()),
        ("proven", ("https://a.b/",)),
        ("cited", ("https://a.b/c#d",)),
        ("neither", ()),
    ]


def test_lists_tables_boxes_and_definitions_hold_sentences_code_does_not():
    text = (
        "- Item.\n\n| head |\n|---|\n| entry |\n\n"
        ":::{note}\nIn a box.\n:::\n\n"
        "```{glossary}\nleaf\n  A tensor.\n```\n\n"
        "```{cell} one\n:folded: How it was made\n```\n\n"
        "```{recap} one\n```\n\n---\n\n![]()\n"
    )

    assert [(line, words) for line, _, words in found(text)] == [
        (1, "Item."),
        (3, "head"),
        (5, "entry"),
        (8, "In a box."),
        (13, "A tensor."),
    ]


@pytest.mark.parametrize(
    ("text", "holds_two"),
    [
        ("One. Two.", True),
        ("Is it? Yes.", True),
        ("[It is]{#a .claim}. More.", True),
        ("It is `a`. [Two]{#b .claim}.", True),
        ('He said "no." Then he went.', True),
        ("One! `Two` too.", True),
        ("(One.) Two.", True),
        ("That is **so**. More.", True),
        ("In torch 2.13 it is so.", False),
        ("Take `a.b. C` or e.g. Adam.", False),
        ("It says `is. Not`", False),
        ("A colon: This is one.", False),
    ],
)
def test_two_sentences_on_one_line_are_noticed(text, holds_two):
    [sentence] = in_markdown(text, 1)

    assert sentence.holds_two is holds_two


def test_the_prose_of_a_recipe_is_split_at_its_stops(house):
    path = house / "gallery/three.py"
    path.write_text(
        '"""\nThree\n=====\n\nDraws a\nline. And more.\n"""\n\n'
        "# %% draw\n#\n# A heading\n# ---------\n#\n"
        "# First. Second\n# goes on.\n#\n# .. _it-is:\n#\n# It ``is``.\n\n"
        "word = 1  # No prose. At all.\n# Nor this.\n\n# %% end\n# The last.\n"
    )

    assert [(e.line, e.kind, e.text) for e in sentences_of(path)] == [
        (5, "neither", "Draws a line."),
        (6, "neither", "And more."),
        (14, "neither", "First."),
        (14, "neither", "Second goes on."),
        (19, "proven", "It `is`."),
        (25, "neither", "The last."),
    ]


def test_the_prose_of_a_house_stands_by_page(house):
    (house / "docs/empty.md").write_text("# Empty\n")

    assert [*prose_of(house)] == ["gallery/three", "part/one", "part/two"]
