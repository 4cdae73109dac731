"""The link that leads from a page to the file to edit."""

from tests.helpers.builds import built

FURO = {
    "html_theme": "furo",
    "html_theme_options": {
        "top_of_page_buttons": ["edit"],
        "source_repository": "https://github.com/owner/name/",
        "source_branch": "main",
        "source_directory": "docs/",
    },
}


def test_a_page_leads_to_its_source_and_a_recipe_nowhere(new_house):
    app = built(new_house(), confoverrides=FURO)
    page, recipe = (
        (app.outdir / f"{name}.html").read_text()
        for name in ("part/one", "gallery/three")
    )

    source = "https://github.com/owner/name/edit/main/docs/part/one.md"
    assert f'href="{source}"' in page
    assert "edit-this-page" not in recipe
