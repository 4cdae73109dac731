"""Which sentences a page has, and what they rest on."""

import pytest

from extensions.prose.sentences import in_page, prose_of, sentences_of


def found(text):
    """Return line, kind and words of each sentence of some Markdown."""
    return [(each.line, each.kind, each.text) for each in in_page(text)]


def test_each_line_of_a_paragraph_is_a_sentence():
    assert found("# Title\n\nOne.\n`two` is\n") == [
        (3, "neither", "One."),
        (4, "neither", "`two` is"),
    ]


def test_a_claim_proves_its_sentence_and_a_link_may_cite():
    text = (
        "So [it is]{#it-is .claim}, as [said](https://a.b/){.cited}.\n"
        "See [there](https://a.b/c#d){.cited}.\n"
        "See [here](https://a.b/c#d).\n"
    )

    assert [kind for _, kind, _ in found(text)] == [
        "proven",
        "cited",
        "neither",
    ]
    cited = [part.address for part in in_page(text)[1].parts]
    assert cited == ["", "https://a.b/c#d", ""]


def test_lists_tables_and_boxes_hold_sentences_and_code_does_not():
    text = (
        "- Item.\n\n| head |\n|---|\n| entry |\n\n"
        ":::{note}\nIn a box.\n:::\n\n"
        "```{cell} one\n:folded: How it was made\n```\n\n"
        "```{recap} one\n```\n\n---\n\n![]()\n"
    )

    assert [words for _, _, words in found(text)] == [
        "Item.",
        "head",
        "entry",
        "In a box.",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "One. Two.",
        "Is it? Yes.",
        "[It is]{#a .claim}. More.",
        "It is `a`. [Two]{#b .claim}.",
        'He said "no." Then he went.',
        "One! `Two` too.",
        "(One.) Two.",
        "That is **so**. More.",
    ],
)
def test_two_sentences_on_one_line_are_noticed(text):
    [sentence] = in_page(text)

    assert sentence.holds_two


@pytest.mark.parametrize(
    "text",
    [
        "In torch 2.13 it is so.",
        "Take `a.b. C` or e.g. Adam.",
        "It says `is. Not`",
        "A colon: This is one.",
    ],
)
def test_one_sentence_is_one(text):
    [sentence] = in_page(text)

    assert not sentence.holds_two


def test_the_prose_of_a_recipe_is_split_at_its_stops(house):
    path = house / "gallery/three.py"
    path.write_text(
        '"""\nThree\n=====\n\nDraws a\nline. And more.\n"""\n\n'
        "# %% draw\n#\n# A heading\n# ---------\n#\n"
        "# First. Second\n# goes on.\n#\n# .. _it-is:\n#\n# It ``is``.\n\n"
        "word = 1  # No prose. At all.\n# Nor this.\n"
    )

    assert [(e.line, e.kind, e.text) for e in sentences_of(path)] == [
        (5, "neither", "Draws a line."),
        (6, "neither", "And more."),
        (14, "neither", "First."),
        (14, "neither", "Second goes on."),
        (19, "proven", "It `is`."),
    ]


def test_the_prose_of_a_house_stands_by_page(house):
    assert [*prose_of(house)] == ["gallery/three", "part/one", "part/two"]
