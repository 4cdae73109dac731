"""A page counts as changed until all pages have been checked again."""

import pytest

from extensions.core.checked_pages import CHECKED, changed_pages, note
from extensions.core.files import Problem

ALL = {"evidence/claims", "gallery/three", "index", "part/one", "part/two"}


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
    assert changed_pages(house) == ALL
    note(house)
    assert changed_pages(house) == set()

    with (house / name).open("a") as file:
        file.write("\nMore.\n")
    assert changed_pages(house) == changed
    note(house)
    assert changed_pages(house) == set()


def test_a_damaged_list_is_named(house):
    path = house / CHECKED
    path.parent.mkdir(exist_ok=True)
    path.write_text("[]")

    with pytest.raises(Problem, match="holds no hashes of pages"):
        changed_pages(house)
