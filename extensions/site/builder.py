"""The builder of the site: it writes what has changed, and nothing else.

Beside the doctrees it keeps a record, for each folder that it writes, of what
each page was written from. Sphinx asks only whether a source is newer than its
page, and so takes a page for current that a build was ended before writing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.builders.html import StandaloneHTMLBuilder

from extensions.files.ledger import Ledger
from extensions.files.problem import Problem
from extensions.files.reading import bytes_of, json_of
from extensions.files.writing import remove, write
from extensions.site.few_pages import are_few
from extensions.site.written_from import digest, marks

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders import Builder
    from sphinx.environment import BuildEnvironment
    from sphinx.util.typing import ExtensionMetadata

END = b"</html>"
NONE = Ledger((), (), {})


def ledger_of(builder: Builder) -> Ledger:
    """Return the ledger of a build; it is empty where no site is written."""
    return builder.ledger if isinstance(builder, SiteBuilder) else NONE


class SiteBuilder(StandaloneHTMLBuilder):
    """Writes a page if what it is written from has changed."""

    ledger = NONE
    """What the rules have read; the pages show it."""
    recorded: dict[str, str]
    """By page: what it was written from."""
    marks: dict[str, str]
    """By page: what it is to be written from."""
    is_current = False
    """Whether there is nothing to write."""

    def init(self) -> None:
        """Read what was written."""
        super().init()
        name = f"written-{digest(str(self.outdir))[:8]}.json"
        self.record = Path(self.doctreedir, name)
        self.recorded = {}
        with contextlib.suppress(Problem, TypeError):  # none, or damaged
            self.recorded = dict(json_of(self.record))

    def get_outdated_docs(self) -> Iterator[str]:
        """Return none: Sphinx asks before it reads, :meth:`behind` later."""
        return iter(())

    def behind(self) -> set[str]:
        """Return the pages that were written from something else, or not."""
        self.marks = marks(self, self.ledger)
        return {name for name in self.marks if self.is_behind(name)}

    def is_behind(self, name: str) -> bool:
        """Whether a page is to be written."""
        if self.recorded.get(name) != self.marks[name]:
            return True
        return not self.get_output_path(name).exists()

    def prepare_writing(self, docnames: Set[str]) -> None:
        """Strike from the record what is about to be written or removed."""
        self.is_current = not docnames and self.recorded == self.marks
        if self.is_current:
            return
        for name in self.recorded.keys() - self.marks.keys():
            remove(self.get_output_path(name))
        self.written = {name for name in self.marks if self.is_behind(name)}
        self.written |= docnames
        self.note(self.marks.keys() - self.written)
        self.parallel_ok &= not are_few(len(docnames))
        super().prepare_writing(docnames)

    def note(self, names: Set[str]) -> None:
        """Record of some pages that they are written."""
        marks = {name: self.marks[name] for name in sorted(names)}
        write(self.record, json.dumps(marks, indent=0) + "\n")

    def copy_assets(self) -> None:
        """Copy what pages load, if there is something to write."""
        if not self.is_current:
            super().copy_assets()

    def finish(self) -> None:
        """Write what belongs to all pages, if there is something to write."""
        if not self.is_current:
            super().finish()


def outdated(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages to write, now that all are read."""
    if not isinstance(app.builder, SiteBuilder):
        return []
    return sorted(app.builder.behind() & env.found_docs)


def confirm(app: Sphinx, error: Exception | None) -> None:
    """Record what was written, if each page is whole."""
    builder = app.builder
    if error or not isinstance(builder, SiteBuilder) or builder.is_current:
        return
    for name in sorted(builder.marks):
        path = builder.get_output_path(name)
        if not path.exists() or not bytes_of(path).rstrip().endswith(END):
            raise Problem(path, 1, "this page was not written whole")
    builder.note(builder.marks.keys())


def setup(app: Sphinx) -> ExtensionMetadata:
    """Take the place of Sphinx's own builder of HTML."""
    app.add_builder(SiteBuilder, override=True)
    app.connect("env-updated", outdated)
    app.connect("build-finished", confirm, priority=900)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
