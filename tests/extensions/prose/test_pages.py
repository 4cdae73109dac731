"""The sentences of pages and recipes."""

import pytest

from extensions.prose.sentences import prose_of, sentences_of

RECIPE = '''"""
A title
=======

What it shows. And why.
"""

# %% settings
#
# A heading
# ---------
#
# Words that are
# wrapped. ``More`` words.
#
# .. _it-is-so:
#
# It is so.

size = 3  # no prose

# %% end
# The last words.
'''


@pytest.fixture
def root(tmp_path):
    for name, text in {
        "docs/part/one.md": "# One\n\nWords.\n",
        "docs/empty.md": "# Empty\n",
        "gallery/three.py": RECIPE,
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_pages_and_recipes_with_sentences_are_found_by_name(root):
    assert list(prose_of(root)) == ["gallery/three", "part/one"]


def test_the_prose_of_a_recipe_is_split_at_each_full_stop(root):
    sentences = sentences_of(root / "gallery/three.py")

    assert [(each.line, each.kind, each.text) for each in sentences] == [
        (5, "neither", "What it shows."),
        (5, "neither", "And why."),
        (13, "neither", "Words that are wrapped."),
        (14, "neither", "`More` words."),
        (18, "proven", "It is so."),
        (23, "neither", "The last words."),
    ]
