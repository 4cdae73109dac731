"""The lists of programs are made anew if one of them would be another."""

import pytest
from sphinx_gallery import gen_gallery

HEADER = "snippets/part/GALLERY_HEADER.rst"


@pytest.fixture
def listed(monkeypatch):
    """The folders that sphinx-gallery has listed since the last look."""
    folders = []
    list_folder = gen_gallery.generate_dir_rst

    def listing(folder, *args, **options):
        folders.append(folder.name)
        return list_folder(folder, *args, **options)

    monkeypatch.setattr(gen_gallery, "generate_dir_rst", listing)
    return folders


def test_what_stands_there_is_not_listed_again(build, listed):
    app = build()

    assert not listed
    folders = app.config.sphinx_gallery_conf["gallery_dirs"]
    assert folders == ["code", "gallery"]


def add(path, text="\nMore.\n"):
    path.write_text(path.read_text() + text)


CHANGES = {
    "a header": lambda house: add(house / HEADER),
    "a program": lambda house: add(house / "snippets/part/one.py", "# more\n"),
    "a recipe that is gone": lambda house: (
        house / "gallery/three.py"
    ).unlink(),
    "a list": lambda house: add(house / "docs/gallery/index.rst"),
    "a list that is gone": lambda house: (
        house / "docs/gallery/index.rst"
    ).unlink(),
    "a setting": lambda house: add(
        house / "docs/conf.py", 'sphinx_gallery_conf["line_numbers"] = True\n'
    ),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_lists_all_again(house, build, listed, change):
    index = house / "docs/gallery/index.rst"
    before = index.read_text()
    change(house)

    build()

    assert set(listed) == {"snippets", "part", "gallery"}
    recipe = house / "gallery/three.py"
    assert (index.read_text() == before) is recipe.exists()
    assert (house / "docs/code/part/one.py").exists()
