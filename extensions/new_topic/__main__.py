"""Write a new topic: ``python -m extensions.new_topic models/tied_weights``.

Ends with 0 if the three files are written, 2 if none is.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

from extensions.core.files import Problem, in_one_line, text_of, write
from extensions.core.topics import ROOT, Topic

NAME = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*")
EXAMPLE = Topic(Path(__file__).parent / "example", "models/tied_weights")
TITLE = "Tied weights"
UNDERLINED = f"{TITLE}\n{'=' * len(TITLE)}\n"
LEFT = """\
Wrote {files}.

They hold an example that builds and passes its tests. What is left to do:

1. List the page in docs/{chapter}/index.md: add the line "{page}" to the
   toctree, and above it a question with the rule that answers it:
   - How do I ...?
     Do this and that: [{title}]({page}.md).
2. Replace the example with your own program, prose, claims and tests, all of
   it: no check notices what you leave.
   .venv/bin/nox -s live
   shows the page and the results of its claims each time you save.
3. Add names of torch that docs/torch_names.toml lacks, as the build says.
4. Add to tests/browser/queries.toml what people will type to find the page.
5. Find out what the tests do not notice:
   .venv/bin/nox -s mutants -- {topic}
"""


def new_topic(root: Path, name: str) -> list[Path]:
    """Write the page, the program and the tests of a topic."""
    topic = Topic(root, name)
    _check(topic)
    for path in _files(topic):
        if path.exists():
            raise Problem(path, 1, f"the topic {name} exists already")
    for path, example in zip(_files(topic), _files(EXAMPLE), strict=True):
        write(path, _renamed(text_of(example), name))
    return _files(topic)


def _files(topic: Topic) -> list[Path]:
    """Return the files that every topic has."""
    return [topic.page, topic.snippet, topic.tests]


def _chapters(root: Path) -> list[str]:
    """Return the folders of programs that have an index of pages, too."""
    names = sorted(each.name for each in root.glob("snippets/*/"))
    return [
        name for name in names if (root / f"docs/{name}/index.md").exists()
    ]


def _check(topic: Topic) -> None:
    """Raise what is wrong with the name of a topic."""
    name, known = topic.name, _chapters(topic.root)
    if topic.is_recipe:
        message = f"{name} is a recipe, one file: copy another of gallery/"
    elif not NAME.fullmatch(name):
        message = (
            f"no name of a topic: {name!r}: write chapter/topic,"
            " lower-case words joined by underscores"
        )
    elif topic.chapter not in known:
        message = f"no chapter {topic.chapter!r}; there are: "
        message += ", ".join(known)
    else:
        return
    raise Problem(topic.root, 1, message)


def _renamed(text: str, name: str) -> str:
    """Return a file of the example as that of another topic."""
    title = _title(name)
    text = text.replace(UNDERLINED, f"{title}\n{'=' * len(title)}\n")
    return text.replace(TITLE, title).replace(EXAMPLE.name, name)


def _title(name: str) -> str:
    """Return what a topic of a name may be called."""
    return name.partition("/")[2].replace("_", " ").capitalize()


def main() -> None:
    """Write the topic that the command line names."""
    parser = argparse.ArgumentParser(
        prog="nox -s new --",
        description="Write the three files of a new topic.",
    )
    parser.add_argument("topic", help="such as models/tied_weights")
    name = parser.parse_args().topic
    files = [each.relative_to(ROOT) for each in new_topic(ROOT, name)]
    chapter, _, page = name.partition("/")
    print(
        LEFT.format(
            files=", ".join(each.as_posix() for each in files),
            chapter=chapter,
            page=page,
            title=_title(name),
            topic=name,
        ),
        end="",
    )


if __name__ == "__main__":
    in_one_line(main)
