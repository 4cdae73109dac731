"""What comes of a recipe, at the head of its page."""

import re

WORDS = "A line through three points."


def test_the_first_picture_of_a_recipe_stands_below_its_first_words(
    house, build
):
    recipe = house / "gallery/three.py"
    text = recipe.read_text().replace("=====\n", f"=====\n\n{WORDS}\n", 1)
    recipe.write_text(text)

    html = (build().outdir / "gallery/three.html").read_text()

    _, head, body = re.split(f"<p>{WORDS}</p>|import</span>", html)
    assert re.findall(r'class="only-(\w+)"', head) == ["light", "dark"]
    assert re.findall(r'class="only-(\w+)"', body) == ["light", "dark"]


def test_a_recipe_that_draws_nothing_shows_nothing(unbuilt, build):
    recipe = unbuilt / "gallery/three.py"
    recipe.write_text(recipe.read_text().partition("import")[0] + "lines = 1")

    html = (build().outdir / "gallery/three.html").read_text()

    assert "What comes of it" not in html
