"""Pages as text: their directives, and the order in which they are read."""

from extensions.core.markdown import (
    Chapter,
    chapters,
    directive_of,
    parse,
)
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


def test_a_directive_knows_its_options_and_where_its_body_begins():
    text = "```{fold} A *title*\n:open:\n:class: a b\n\n: no option\n```"
    [token] = parse(text)
    found = directive_of(token, 7)

    assert (found.name, found.argument) == ("fold", "A *title*")
    assert found.options == {"open": "", "class": "a b"}
    assert (found.body, found.first) == ("\n: no option\n", 10)


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
