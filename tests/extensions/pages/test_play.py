"""Pieces to play with: what a page holds, and what downloads say instead."""

import json
import re

import pytest
import torch

from extensions.core.pieces import EXAMPLES
from extensions.core.reading import text_of
from extensions.core.topics import ROOT
from tests.helpers.builds import built
from tests.helpers.pieces import ANSWERS, all_answers, as_text

PIECE = "\n```{{play}} {}\n```\n"
WRONG = {
    "broadcast": ("no piece is called 'broadcast': there is broadcasting"),
    "": "1 argument(s) required, 0 supplied",
}
STATIC = ROOT / "extensions/pages/static"
TEMPLATES = ROOT / "extensions/pages/templates/play"


@pytest.fixture(scope="module")
def played(new_house):
    """A site with a page for each piece, and a piece where downloads are."""
    house = new_house()
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + PIECE.format("broadcasting"))
    index = house / "docs/index.md"
    index.write_text(index.read_text().replace("part/*", "part/*\nplay *"))
    for name in EXAMPLES:
        page = house / f"docs/play {name}.md"
        page.write_text(f"# Play\n{PIECE.format(name)}")
    home = {"html_baseurl": "https://example.org/"}
    return built(house, confoverrides=home)


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_page_holds_the_piece_that_it_names(played, name):
    html = (played.outdir / f"play {name}.html").read_text()

    assert played.warning.getvalue() == ""
    assert f'<div class="play" data-play="{name}" role="group"' in html
    assert 'role="status">' in html
    loaded = re.findall(r'src="[^"]*/(play[\w-]*\.js)', html)
    assert loaded == ["play.js", f"play-{name}.js"]
    assert "play.css" in html


def test_pages_without_a_piece_load_nothing_of_it(played):
    html = (played.outdir / "part/two.html").read_text()

    assert not re.findall(r"play[\w-]*\.(?:css|js)", html)


def test_no_script_stands_in_the_page(played):
    html = (played.outdir / "part/one.html").read_text()
    [piece] = re.findall(r'<div class="play".*?</form>', html, re.DOTALL)

    assert "<script" not in piece
    assert not re.search(r"\son\w+=", piece)


@pytest.fixture(scope="module")
def wrong(new_house):
    """What a build says of a page with wrong names."""
    house = new_house()
    pieces = "".join(PIECE.format(name) for name in WRONG)
    (house / "docs/part/one.md").write_text(f"# One\n{pieces}")
    return built(house).warning.getvalue()


@pytest.mark.parametrize(("line", "name"), [(3, "broadcast"), (6, "")])
def test_a_wrong_name_is_reported_at_its_line(wrong, line, name):
    [said] = [each for each in wrong.splitlines() if f".md:{line}: " in each]

    assert "part/one.md" in said
    assert WRONG[name] in said


def test_downloads_give_the_example_and_lead_to_the_page(played):
    end = (
        f"{EXAMPLES['broadcasting']}\n\n"
        "[The page](https://example.org/part/one.html) lets you try others."
    )

    assert end in (played.outdir / "part/one.md").read_text()
    notebook = (played.srcdir / "code/part/one.ipynb").read_text()
    cells = json.loads(notebook)["cells"]
    assert any(end in "".join(cell["source"]) for cell in cells)


def test_each_piece_has_all_its_parts():
    names = sorted(EXAMPLES)

    assert sorted(p.stem for p in TEMPLATES.glob("[!p]*.html")) == names
    scripts = [f"play-{name}.js" for name in names]
    assert sorted(p.name for p in STATIC.glob("play-*.js")) == scripts
    assert list(all_answers()) == ["broadcasting", "reshape", "gradient"]


def test_the_browser_compares_with_what_this_torch_answers():
    # If not: python -m tests.helpers.pieces
    assert as_text(all_answers()) == text_of(ANSWERS)


# -- The examples -------------------------------------------------------------


def test_the_two_shapes_of_the_example_fit():
    given = torch.zeros(8, 8) + torch.zeros(1797, 1, 8)

    assert "`(1797, 8, 8)`" in EXAMPLES["broadcasting"]
    assert given.shape == (1797, 8, 8)


def test_the_call_of_the_example_gives_its_shape_and_its_strides():
    x = torch.zeros(2, 3, 4)
    y = x.permute(2, 0, 1)

    assert "`(4, 2, 3)` and the strides `(1, 12, 4)`" in EXAMPLES["reshape"]
    assert y.shape == (4, 2, 3)
    assert y.stride() == (1, 12, 4)
    assert y.data_ptr() == x.data_ptr()


def test_the_numbers_of_the_example_have_its_gradients():
    w, x, b, y = (
        torch.tensor(value, requires_grad=True)
        for value in [3.0, 2.0, 1.0, 10.0]
    )
    loss = (w * x + b - y) ** 2
    loss.backward()

    said = EXAMPLES["gradient"].replace("\N{MINUS SIGN}", "-")
    assert "give a loss of 9" in said
    assert "-12 for w, -18 for x, -6 for b and 6 for y" in said
    assert loss == 9
    assert [each.grad.item() for each in (w, x, b, y)] == [-12, -18, -6, 6]
