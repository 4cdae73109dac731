"""A warning stands until what it warns of is mended."""

import pytest

# MyST warns with an attribute that Sphinx calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")

BROKEN = {
    "a dead link": "[a](nowhere.md)\n",
    "a role without its target": "{doc}`nowhere`\n",
    "a cell that is not": "```{cell} nowhere\n```\n",
    "a directive that is not": "```{nowhere}\n```\n",
}


def added(house, text):
    """Add a text to a page; return what puts the page back."""
    page = house / "docs/part/one.md"
    before = page.read_text()
    page.write_text(f"{before}\n{text}")
    return lambda: page.write_text(before)


def warnings_of(app):
    """Return the warnings of pages, and not those of a second application."""
    lines = app.warning.getvalue().splitlines()
    return [line for line in lines if "already registered" not in line]


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN)
def test_it_is_said_in_each_build_until_it_is_mended(house, build, text):
    put_back = added(house, text)

    first, second = warnings_of(build()), warnings_of(build())
    put_back()

    assert "one.md" in "".join(first)
    assert first == second
    assert warnings_of(build()) == []


def test_only_its_page_is_read_and_written_again(house, build):
    added(house, "[a](nowhere.md)\n")
    build()

    builder = build().builder

    assert "part/one" in builder.written
    assert "part/two" not in builder.written


def test_it_is_said_by_the_next_build_if_one_is_killed(house, build, kill):
    added(house, "[a](nowhere.md)\n")

    assert kill("html-page-context") == 9

    assert "nowhere" in build().warning.getvalue()


def test_after_a_build_without_a_warning_nothing_is_read_again(build):
    app = build()

    assert app.builder.is_current
    assert not (app.doctreedir / "warned.json").exists()
