"""Draw the card of a page, which is shown where somebody shares its link.

It holds the name of the site, the title and the opening of the page, and the
first figure that its program drew. With the font that Matplotlib brings, each
build draws the same.
"""

from __future__ import annotations

import io
from functools import cache
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from PIL.Image import open as decoded

from extensions.core.reading import bytes_of

SIZE = 1200, 630
MARGIN = 64
_BRAND = "#1a7f37"  # of what is proven, as in the icon of the site
_PAPER, _INK, _QUIET = "#ffffff", "#1a1a1a", "#595959"
FIGURE = 540, 440  # room for a figure, at the right
_ICON = 56
_GAP = 44
_NAME = 34
# Of a title and of an opening, without a figure and beside one: the sizes to
# try, and how many lines there may be.
WIDE = ((84, 76, 68, 60, 52), 2), ((46, 42, 38, 34, 30), 5)
NARROW = ((56, 50, 45, 40, 36), 3), ((32, 29, 26, 23), 8)
_LEADING = 1.3  # the height of a line, in sizes of its letters
_MORE = "…"
_COLORS = 64  # which few letters and a figure need


@cache
def font(size: int, weight: str = "") -> ImageFont.FreeTypeFont:
    """Return the font of Matplotlib, which is the same on each machine."""
    from matplotlib import get_data_path  # most builds draw no card

    path = Path(get_data_path(), "fonts/ttf", f"DejaVuSans{weight}.ttf")
    layout = ImageFont.Layout.BASIC
    return ImageFont.truetype(path, size, layout_engine=layout)


def wrapped(text: str, letters: ImageFont.FreeTypeFont, width: int) -> str:
    """Return a text in lines of at most a width, but for one long word."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if letters.getlength(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
    return "\n".join(line for line in lines if line)


def _shortened(row: str, letters: ImageFont.FreeTypeFont, width: int) -> str:
    """Return a line of at most a width; a sign stands for its end."""
    while letters.getlength(row) > width:
        row = row.removesuffix(_MORE)[:-1] + _MORE
    return row


_Room = tuple[tuple[int, ...], int]


class _Sheet:
    """A card that is being filled from its top."""

    def __init__(self, width: int, bottom: int) -> None:
        """Begin with an empty card whose texts have a width and a bottom."""
        self.image = Image.new("RGB", SIZE, _PAPER)
        self.draw = ImageDraw.Draw(self.image)
        self.width, self.bottom, self.top = width, bottom, MARGIN

    def head(self, site: str) -> None:
        """Draw a bar, and below it the icon of the site and its name."""
        self.draw.rectangle((0, 0, SIZE[0], 14), _BRAND)
        end = MARGIN + _ICON
        box = MARGIN, MARGIN, end, end
        self.draw.rounded_rectangle(box, _ICON * 6 // 32, _BRAND)
        check = (8, 17), (14, 23), (25, 9)  # of 32, as in favicon.svg
        points = [
            (MARGIN + _ICON * x / 32, MARGIN + _ICON * y / 32)
            for x, y in check
        ]
        self.draw.line(points, _PAPER, _ICON * 4 // 32, "curve")
        place = end + _GAP // 2, MARGIN + _ICON // 2
        self.draw.text(place, site, _BRAND, font(_NAME, "-Bold"), "lm")
        self.top = end + _GAP

    def text(
        self, words: str, room: _Room, color: str, weight: str = ""
    ) -> None:
        """Write some words in the largest size in which all of them fit.

        Where none is small enough, a sign stands for what is left out: the
        last lines, or the end of a long word.
        """
        sizes, lines = room
        for size in sizes:
            letters = font(size, weight)
            rows = wrapped(words, letters, self.width).split("\n")
            step = round(size * _LEADING)
            fit = min(lines, (self.bottom - self.top) // step)
            widest = max(map(letters.getlength, rows))
            if len(rows) <= fit and widest <= self.width:
                break
        else:
            if len(rows) > fit:
                rows = [*rows[: fit - 1], f"{rows[fit - 1]} {_MORE}"]
            rows = [_shortened(row, letters, self.width) for row in rows]
        for row in rows:
            self.draw.text((MARGIN, self.top), row, color, letters)
            self.top += step

    def figure(self, drawn: Path) -> None:
        """Put a figure at the right, as large as there is room."""
        with decoded(io.BytesIO(bytes_of(drawn))) as opened:
            figure = opened.convert("RGB")
        figure.thumbnail(FIGURE, Image.Resampling.LANCZOS)
        left = SIZE[0] - MARGIN // 2 - figure.width
        self.image.paste(figure, (left, (SIZE[1] - figure.height) // 2))


def card(site: str, title: str, opening: str, drawn: Path | None) -> bytes:
    """Return a card as PNG."""
    room = FIGURE[0] + _GAP - MARGIN // 2 if drawn else 0
    sheet = _Sheet(SIZE[0] - 2 * MARGIN - room, SIZE[1] - MARGIN)
    sheet.head(site)
    if drawn:
        sheet.figure(drawn)
    for_title, for_opening = NARROW if drawn else WIDE
    sheet.text(title, for_title, _INK, "-Bold")
    sheet.top += _GAP // 2
    sheet.text(opening, for_opening, _QUIET)
    content = io.BytesIO()
    few = sheet.image.quantize(_COLORS, Image.Quantize.FASTOCTREE)
    few.save(content, "PNG")
    return content.getvalue()
