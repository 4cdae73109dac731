"""Directives and roles on pages without a program."""

from extensions.lint.file_rules import directives_have_a_meaning


def test_what_has_no_meaning_is_reported_at_its_line(house):
    page = house / "docs/index.md"
    page.write_text("# Title\n\n:::{lost}\nWords.\n:::\n\n{also}`lost`\n")

    assert [str(each) for each in directives_have_a_meaning(house)] == [
        f"{page}:{line}: nothing says what {{{name}}} means:"
        " see extensions/core/directives.py"
        for line, name in ((3, "lost"), (7, "also"))
    ]


def test_a_page_with_a_program_is_left_to_its_export(house):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n{lost}`word`\n")

    assert [*directives_have_a_meaning(house)] == []
