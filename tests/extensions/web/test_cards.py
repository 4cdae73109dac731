"""The card of a page, which is shown where somebody shares its link."""

import io

import pytest
from PIL import Image, ImageDraw

from extensions.web import cards
from extensions.web.cards import NARROW, SIZE, WIDE, card, font, wrapped

WORDS = "You find out which of two ways is faster, and by how much."
LONG = "Train a classifier with everything, from images to a checkpoint"


@pytest.fixture
def written(monkeypatch):
    """Return what a card writes: each line, with its place and its letters."""
    lines = []
    text = ImageDraw.ImageDraw.text

    def noted(draw, place, words, color, letters, *more):
        lines.append((place, words, letters))
        text(draw, place, words, color, letters, *more)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", noted)
    return lines


@pytest.fixture
def drawn(tmp_path):
    path = tmp_path / "one_card.png"
    Image.new("RGBA", (700, 900), "green").save(path)
    return path


def test_a_card_is_small_and_the_same_each_time(drawn):
    first = card("Site", "Title", WORDS, drawn)

    assert first == card("Site", "Title", WORDS, drawn)
    assert len(first) < 60_000
    with Image.open(io.BytesIO(first)) as image:
        assert image.size == SIZE


@pytest.mark.parametrize("has_figure", [False, True])
def test_no_word_is_cut_off(written, drawn, has_figure):
    card("Site", LONG, f"{WORDS} {WORDS}", drawn if has_figure else None)

    said = " ".join(words for _, words, _ in written)
    assert said == f"Site {LONG} {WORDS} {WORDS}"
    end = SIZE[0] - cards.MARGIN
    if has_figure:
        end = SIZE[0] - cards.FIGURE[0]
    for (left, top), words, letters in written[1:]:
        assert left + letters.getlength(words) <= end
        assert top + letters.size <= SIZE[1] - cards.MARGIN


def test_short_words_are_larger(written):
    card("Site", "Title", WORDS, None)

    sizes = [letters.size for _, _, letters in written[1:]]
    assert sizes == [WIDE[0][0][0], *[WIDE[1][0][0]] * (len(sizes) - 1)]


def test_what_fits_in_no_size_ends_in_a_sign(written, drawn):
    card("Site", LONG, WORDS * 9, drawn)

    assert written[-1][1].endswith("…")
    assert written[-1][2].size == NARROW[1][0][-1]


def test_lines_are_no_wider_than_their_room():
    letters = font(20)

    lines = wrapped(
        "one two three", letters, int(letters.getlength("one two"))
    )

    assert lines == "one two\nthree"


@pytest.mark.parametrize("has_figure", [False, True])
@pytest.mark.parametrize("title", ["a_long_name" * 9, f"tests/{'x' * 50} y"])
def test_a_word_that_is_too_long_loses_its_end(
    written, drawn, has_figure, title
):
    card("Site", title, f"{title} {WORDS}", drawn if has_figure else None)

    end = SIZE[0] - (cards.FIGURE[0] if has_figure else cards.MARGIN)
    assert any(words.endswith("…") for _, words, _ in written)
    for (left, _), words, letters in written[1:]:
        assert left + letters.getlength(words) <= end
