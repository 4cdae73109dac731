"""The order in which the site is read."""

from extensions.core.markdown import Chapter, chapters
from extensions.core.topics import ROOT

INDEX = """# Site

```{toctree}
other
part/index
gallery/index
```
"""
PART = """# The `part`

- What is it?
  Call `one()`, and look: [One](one.md).
- And then?
  Read on: [Two](../other.md#two).

```{toctree}
:hidden:

two
one
```
"""


def test_chapters_are_in_the_order_of_the_contents(tmp_path):
    (tmp_path / "docs/part").mkdir(parents=True)
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery/GALLERY_HEADER.rst").write_text("Recipes\n=======\n")
    for name in ("b", "a"):
        (tmp_path / f"gallery/{name}.py").write_text("")
    (tmp_path / "docs/index.md").write_text(INDEX)
    (tmp_path / "docs/part/index.md").write_text(PART)

    assert [*chapters(tmp_path)] == [
        Chapter(
            "part",
            "The part",
            ("part/two", "part/one"),
            (("part/one", "Call `one()`, and look"), ("other", "Read on")),
        ),
        Chapter("gallery", "Recipes", ("gallery/a", "gallery/b"), ()),
    ]


def test_each_question_of_a_chapter_has_its_answer():
    without = []
    for chapter in chapters(ROOT):
        index = ROOT / "docs" / chapter.name / "index.md"
        if not index.exists():
            continue  # the recipes, whose index sphinx-gallery writes
        questions = index.read_text().count("\n- ")
        assert len(chapter.rules) == questions, chapter.name
        if not questions:
            without.append(chapter.name)

    assert without == ["start", "course"]  # they are read in a row
