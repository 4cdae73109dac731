"""When a notebook is written, and what the build says of it."""

import json

import nbformat
import pytest


def test_the_notebook_of_a_recipe_is_written_as_well(house, build):
    recipe = house / "gallery/three.py"
    recipe.write_text(
        recipe.read_text().replace("plt\n", "plt\nimport torch\n")
    )
    build()

    path = house / "docs/gallery/three.ipynb"
    title, check, prose, code, _ = nbformat.read(path, 4)["cells"]
    assert title["source"].startswith("# Three\n\nThe notebook of the page")
    assert "is too old" in check["source"]
    assert prose["source"] == "One line is drawn."
    assert code["source"].startswith("import matplotlib")


def test_the_notebook_of_a_recipe_holds_what_its_cells_gave(site):
    *_, code, _ = nbformat.read(site.srcdir / "gallery/three.ipynb", 4)[
        "cells"
    ]
    kinds = [kind for out in code["outputs"] for kind in out.get("data", ())]
    assert "image/svg+xml" in kinds


def test_a_build_warns_of_what_no_notebook_can_show(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n{kbd}`Ctrl`\n")

    warning = build().warning.getvalue()

    assert "one.md:11: WARNING: a notebook cannot show {kbd}" in warning
    assert "kbd" not in (house / "docs/code/part/one.ipynb").read_text()


def test_a_notebook_is_left_alone_if_nothing_changed(house, build):
    app = build()
    path = house / "docs/code/part/one.ipynb"
    before = path.stat().st_mtime_ns

    build()

    assert not app.warning.getvalue()
    assert "# One" in path.read_text()
    assert path.stat().st_mtime_ns == before


def test_a_program_that_runs_again_keeps_the_notebook_of_its_page(
    house, build
):
    path = house / "docs/code/part/one.ipynb"
    before = path.read_text()
    path.with_suffix(".ran").unlink()

    build()

    assert path.read_text() == before


@pytest.fixture
def again(build, house):
    """Build again after a change; return what the build says of notebooks."""
    page = house / "docs/part/two.md"
    page.write_text(
        page.read_text() + "\n```{recap} part/one#word-is-one\n```\n"
    )
    build()

    def again(**options):
        said = build(**options).status.getvalue().splitlines()
        return [line for line in said if "notebook to be written" in line]

    return again


@pytest.mark.parametrize(
    ("file", "new", "expected"),
    [
        ("docs/part/one.md", "\nMore.\n", "part/one: {} (its text)"),
        (
            "snippets/part/one.py",
            "\nword\n",
            "part/one: {} (its program, what its program gave)",
        ),
        ("docs/code/part/one.ipynb", " ", "part/one: {} (the notebook)"),
    ],
)
def test_the_build_says_why_a_notebook_is_written_again(
    house, again, file, new, expected
):
    assert again() == []

    path = house / file
    path.write_text(path.read_text() + new)

    assert again() == [expected.format("notebook to be written")]
    assert again() == []


def test_a_repeated_claim_that_changes_is_put_into_the_notebook(house, again):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("[`word` is one]", "[It is 1]"))

    said = again()

    assert "part/two: notebook to be written (claims of other pages)" in said
    assert "It is 1" in (house / "docs/code/part/two.ipynb").read_text()


def test_all_notebooks_of_one_reason_stand_in_one_line(again):
    said = again(confoverrides={"html_baseurl": "https://a.org"})

    assert said == [
        "gallery/three, part/one, part/two:"
        " notebook to be written (the site's address)"
    ]


def test_a_fingerprint_that_is_damaged_is_written_again(house, again):
    path = house / "docs/code/part/one.notebook.json"
    whole = path.read_text()
    path.write_text(whole[:9])

    assert again() == ["part/one: notebook to be written (new)"]
    assert json.loads(path.read_text()) == json.loads(whole)


def test_a_notebook_says_how_far_its_claims_reach(site):
    notebook = json.loads((site.srcdir / "code/part/one.ipynb").read_text())

    last = "".join(notebook["cells"][-1]["source"])
    assert last.startswith("## How far the claims reach\n\n<details>")
    assert "- `word` is one\n  - Breaks: Another word is not one" in last
