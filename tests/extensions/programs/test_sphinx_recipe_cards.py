"""The list of recipes."""

import re


def card(app):
    """Return the card of the recipe, as HTML."""
    html = (app.outdir / "gallery/index.html").read_text()
    return re.search(r'<div class="recipe-card.*?</div>', html, re.DOTALL)[0]


def test_a_recipe_shows_its_picture_in_both_themes_and_its_name(site):
    shown = card(site)

    assert re.findall(r'class="only-(\w+)"', shown) == ["light", "dark"]
    assert "sphx_glr_three_001.svg" in shown
    assert "sphx_glr_three_001_dark.svg" in shown
    assert ">Three</span></a>" in shown


def test_what_a_recipe_shows_stands_below_its_name(house, build):
    recipe = house / "gallery/three.py"
    recipe.write_text(
        recipe.read_text().replace("=====\n", "=====\n\nSee <a> & more.\n")
    )

    assert "<p>See &lt;a&gt; &amp; more.</p>" in card(build())


def test_a_recipe_that_draws_nothing_has_one_picture(unbuilt, build):
    recipe = unbuilt / "gallery/three.py"
    recipe.write_text(recipe.read_text().partition("import")[0] + "lines = 1")

    assert card(build()).count("<img") == 1


def test_a_recipe_that_draws_at_last_shows_that(unbuilt, build):
    recipe = unbuilt / "gallery/three.py"
    text = recipe.read_text()
    recipe.write_text(text.partition("import")[0] + "lines = 1")
    build()
    recipe.write_text(text)

    assert "sphx_glr_three_001_dark.svg" in card(build())


def test_nothing_is_said_in_an_attribute_that_html_does_not_have(site):
    html = (site.outdir / "gallery/index.html").read_text()

    assert "tooltip=" not in html
