"""The mirror: what belongs to a topic, and where it stands.

A topic is a path such as ``autograd/detach``; the page, the snippet, the tests
and the generated output follow from it. A recipe is the topic
``gallery/<name>``: its script is page and snippet in one. Imports neither
Sphinx nor torch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from extensions.core.files import bytes_of

ROOT = Path(__file__).parents[2]
OURS = {"extensions", "tests"}  # what can be imported from there
# What sphinx-gallery calls the text above a list of programs.
HEADER = "GALLERY_HEADER.rst"


@dataclass(frozen=True, order=True)
class Topic:
    """One topic of the project at a root folder."""

    root: Path
    name: str

    @property
    def is_recipe(self) -> bool:
        """Whether the topic is a recipe of the gallery."""
        return self.name.startswith("gallery/")

    @property
    def chapter(self) -> str:
        """The first part of the path."""
        return self.name.partition("/")[0]

    @property
    def page(self) -> Path:
        """Where the prose stands."""
        if self.is_recipe:
            return self.snippet
        return self.root / "docs" / f"{self.name}.md"

    @property
    def snippet(self) -> Path:
        """Where the code stands."""
        folder = self.root if self.is_recipe else self.root / "snippets"
        return folder / f"{self.name}.py"

    @property
    def tests(self) -> Path:
        """Where the tests of the claims stand."""
        path = self.root / "tests" / f"{self.name}.py"
        return path.with_name(f"test_{path.name}")

    @property
    def tests_page(self) -> str:
        """The name of the page that shows the tests."""
        return f"evidence/tests/{self.name}"

    @property
    def measurement(self) -> Path:
        """Where the cases stand whose time and memory are measured."""
        return self.root / "measurements" / f"{self.name}.py"

    @property
    def output(self) -> Path:
        """Where sphinx-gallery writes the code with its outputs."""
        folder = "docs" if self.is_recipe else "docs/code"
        return self.root / folder / f"{self.name}.rst"


def topic_of_tests(root: Path, module: Path) -> Topic:
    """Return the topic that a test module mirrors."""
    path = module.relative_to(root / "tests").with_suffix("")
    return Topic(
        root, path.with_name(path.name.removeprefix("test_")).as_posix()
    )


def topics(root: Path) -> list[Topic]:
    """Return every topic that has a snippet, in order of name."""
    snippets = root / "snippets"
    paths = [path.relative_to(snippets) for path in snippets.glob("**/*.py")]
    paths += [path.relative_to(root) for path in root.glob("gallery/*.py")]
    return sorted(
        Topic(root, path.with_suffix("").as_posix()) for path in paths
    )


def measured_topics(root: Path) -> list[Topic]:
    """Return every topic that has a measurement, in order of name."""
    folder = root / "measurements"
    return [
        Topic(root, path.relative_to(folder).with_suffix("").as_posix())
        for path in sorted(folder.glob("**/*.py"))
    ]


def sha256(path: Path) -> str:
    """Return the hash that ties a result to the file that gave it."""
    content = bytes_of(path) if path.exists() else b""
    return hashlib.sha256(content).hexdigest()
