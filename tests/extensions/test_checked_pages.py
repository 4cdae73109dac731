"""A page counts as changed until all pages have been checked again."""

import pytest

from tools.checked_pages import changed_pages, note


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("docs/part/one.md", {"part/one"}),
        ("snippets/part/one.py", {"part/one"}),
        ("gallery/three.py", {"gallery/three"}),
        ("docs/new.md", {"new"}),
        ("docs/code/part/one.md", set()),  # which the build writes
        ("tests/part/test_one.py", set()),
    ],
)
def test_a_page_has_changed_if_it_or_its_program_has(house, name, changed):
    note(house)
    assert changed_pages(house) == set()

    with (house / name).open("a") as file:
        file.write("\nMore.\n")

    assert changed_pages(house) == changed
