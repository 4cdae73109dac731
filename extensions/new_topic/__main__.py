"""Write a new topic: ``python -m extensions.new_topic models/tied_weights``.

Ends with 0 if the three files are written, 2 if none is.
"""

import argparse
import re
from pathlib import Path

from extensions.core.files import Problem, in_one_line, text_of, write
from extensions.core.topics import ROOT, Topic

_EXAMPLE = Topic(ROOT, "models/tied_weights")
# In CONTRIBUTING.md: the path of a file of the example, and what it holds.
_SHOWN = re.compile(r"`([\w/.]+)`:\n\n(`{3,})\w+\n(.*?)^\2\n", re.M | re.S)
_NAME = re.compile(r"[a-z][a-z0-9_]*/[a-z][a-z0-9_]*")
_TITLE = "Tied weights"
_LEFT = """\
Wrote {files}.

They hold an example that builds and passes its tests: replace all of it with
your own, since no check notices what you leave. List the page in
docs/{chapter}/index.md: the line "{page}" in the toctree, and above it a
question with the rule that answers it, which ends in [{title}]({page}.md).

.venv/bin/nox -s live shows the page, and the results of its claims, each time
you save. CONTRIBUTING.md says what else makes a page.
"""


def new_topic(root: Path, name: str) -> list[Path]:
    """Write the page, the program and the tests of a topic.

    Raises
    ------
    Problem
        If the name is none of a topic, or one of its files exists.
    """
    topic = Topic(root, name)
    if not _NAME.fullmatch(name):
        message = (
            f"no name of a topic: {name!r}: write chapter/topic,"
            " lower-case words joined by underscores"
        )
        raise Problem(root, 1, message)
    index = topic.page.with_name("index.md")
    if not (index.exists() and topic.snippet.parent.exists()):
        message = f"no chapter {topic.chapter!r}, with an index and programs"
        raise Problem(root, 1, message)
    for path in _files(topic):
        if path.exists():
            raise Problem(path, 1, f"the topic {name} exists already")
    title = _title(topic)
    guide = text_of(ROOT / "CONTRIBUTING.md")
    shown = {path: text for path, _, text in _SHOWN.findall(guide)}
    for path, example in zip(_files(topic), _files(_EXAMPLE), strict=True):
        text = shown[example.relative_to(ROOT).as_posix()]
        text = text.replace(_EXAMPLE.name, name)
        text = text.replace("=" * len(_TITLE), "=" * len(title))
        write(path, text.replace(_TITLE, title))
    return _files(topic)


def _files(topic: Topic) -> list[Path]:
    return [topic.page, topic.snippet, topic.tests]


def _title(topic: Topic) -> str:
    return topic.page.stem.replace("_", " ").capitalize()


def main() -> None:
    """Write the topic that the command line names."""
    parser = argparse.ArgumentParser(
        prog="nox -s new --",
        description="Write the three files of a new topic.",
    )
    parser.add_argument("topic", help="such as models/tied_weights")
    topic = Topic(ROOT, parser.parse_args().topic)
    files = [path.relative_to(ROOT) for path in new_topic(ROOT, topic.name)]
    said = _LEFT.format(
        files=", ".join(path.as_posix() for path in files),
        chapter=topic.chapter,
        page=topic.page.stem,
        title=_title(topic),
    )
    print(said, end="")


if __name__ == "__main__":
    in_one_line(main)
