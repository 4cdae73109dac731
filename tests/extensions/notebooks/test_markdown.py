"""Each page as Markdown."""

import pytest

from tests.helpers.builds import built
from tests.helpers.evidence import record

TABLE = """

# %% table
class Table:
    def _repr_html_(self):
        return "<table><tr><th>a</th></tr><tr><td>1</td></tr></table>"


Table()
"""


@pytest.fixture(scope="module")
def text(new_house):
    """Build a house with one failure, and return a page as Markdown."""
    house = new_house()
    record(house, test_word_is_one="failed")
    snippet = house / "snippets/part/one.py"
    snippet.write_text(snippet.read_text() + TABLE)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n```{cell} table\n```\n")
    return (built(house).outdir / "part/one.md").read_text()


def test_the_code_stands_with_what_it_gave(text):
    assert '```python\nprint(word, "counted")\n```' in text
    assert "```text\none counted\n```" in text
    assert "| a |\n| --- |\n| 1 |" in text
    assert text.startswith("# One\n")


def test_a_claim_stands_with_its_result_and_what_makes_it_false(text):
    claims = text[text.index("## The claims of this page") :]

    assert "- `word` is one\n  - failed on CPU: torch 2.13.0" in claims
    diff = "    ```diff\n    -old\n    +new\n    ```"
    assert f"  - counter-example: Another word is not one.\n{diff}" in claims
    assert ".claim" not in text


def test_a_recipe_is_written_as_its_page_would_be(house, build):
    recipe = house / "gallery/three.py"
    recipe.write_text(
        recipe.read_text().replace(
            "=====\n", "=====\n\nSee :doc:`/part/one`.\n"
        )
        + "\n# %% print\n#\n# Say::\n#\n#     three\n\nprint(len(lines))\n"
    )

    text = (build().outdir / "gallery/three.md").read_text()

    assert text.startswith(
        "# Three\n\nSee One.\n\nOne line is drawn.\n\n```python\nimport "
    )
    assert text.count("(A picture: Three points.)") == 1
    said = "Say:\n\n    three\n\n```python\nprint(len(lines))\n```\n\n"
    assert f"{said}```text\n1\n```\n\n## The claims of this page" in text
    assert "- One line is drawn.\n  - passed on CPU" in text


def test_the_page_says_where_its_markdown_is(site):
    html = (site.outdir / "part/one.html").read_text()

    alternate = '<link rel="alternate" type="text/markdown" href="one.md">'
    assert alternate in html


def test_of_some_cases_the_first_is_told_as_in_the_panel(house, build):
    path = record(house)
    begin, name, end = path.read_text().partition("__but_not_of_another")
    head, case, facts = begin.rpartition("<testcase")
    one, close, rest = f"{case}{facts}{name}{end}".partition("</testcase>")
    both = [
        one.replace(name, f"{name}[{new}]").replace("+new", f"+{new}") + close
        for new in ("first", "last")
    ]
    path.write_text("".join([head, *both, rest]))

    app = build()

    text = (app.outdir / "part/one.md").read_text()
    html = (app.outdir / "part/one.html").read_text()
    assert (
        "  - counter-example: Another word is not one.\n"
        "    ```diff\n    -old\n    +first\n    ```" in text
    )
    assert "<summary>Another word is not one.</summary>" in html
    assert "+first" in html
    assert "+last" not in text


def test_what_the_program_prints_is_told_before_and_after(house, build):
    record(
        house,
        failures={
            "edit": "-old\n+new",
            "said": "assert old == new",
            "output before": "one",
            "output after": "",
        },
    )

    text = (build().outdir / "part/one.md").read_text()

    assert (
        "    It prints before the change:\n    ```text\n    one\n    ```\n"
        "    It prints after the change:\n    ```text\n    (nothing)\n    ```"
    ) in text
