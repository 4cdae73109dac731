"""Recipes on a page, each with its picture."""

WRITTEN = """
```{recipes}
gallery/three
```
"""


def shown(house, build, written=WRITTEN):
    page = house / "docs/index.md"
    page.write_text(page.read_text() + written)
    app = build()
    html = (app.outdir / "index.html").read_text()
    return app, html.partition("recipe-cards")[2]


def test_a_recipe_shows_its_name_its_first_sentence_and_its_picture(
    house, build
):
    recipe = house / "gallery/three.py"
    recipe.write_text(
        recipe.read_text().replace(
            "=====\n", "=====\n\nSee how\nit goes. More.\n"
        )
    )
    _, html = shown(house, build)

    assert 'href="gallery/three.html">Three</a>' in html
    assert "<p>See how it goes.</p>" in html
    assert 'class="only-light"' in html
    assert 'class="only-dark"' in html
    assert "sphx_glr_three_001_dark.svg" in html


def test_what_is_no_recipe_is_named(house, build):
    app, _ = shown(house, build, WRITTEN.replace("gallery/", "part/"))

    assert "no recipe: 'part/three'" in app.warning.getvalue()
