"""The builder of the site: it writes what has changed, and nothing else.

Sphinx asks only whether a source is newer than its page, and so takes a page
for current that a build was ended before writing. This builder compares what
each page is written from with a record of what it was written from.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sphinx.builders.html import StandaloneHTMLBuilder

from extensions.build import page_fingerprints
from extensions.build.errors import stop
from extensions.build.lock import release
from extensions.build.reasons import log_reasons
from extensions.build.record import Record, sizes
from extensions.build.repeated_warnings import warned_before
from extensions.build.site_files import write_site_files
from extensions.core.fingerprint import Fingerprint, digest
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of
from extensions.core.writing import remove

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


_END = b"</html>"


def builder_of(app: Sphinx) -> SiteBuilder:
    """Return the builder, which no feature has to ask what it is.

    The site is built as HTML alone; another builder is refused.
    """
    return cast(SiteBuilder, app.builder)


class SiteBuilder(StandaloneHTMLBuilder):
    """Writes a page if what it is written from has changed."""

    search = False  # the site brings its own
    before: Record
    """What the last build has written."""
    shared = Fingerprint()
    """What every page is to be written from."""
    pages: dict[str, Fingerprint]
    """By page: what it is to be written from besides."""
    reasons: dict[str, list[str]]
    """By page that is to be written: what has changed."""
    written: set[str]
    """The pages that this build writes, generated ones among them."""
    is_current = False
    """Whether there is nothing to write."""

    def __init__(self, app: Sphinx, env: BuildEnvironment) -> None:
        """Keep the application, which Sphinx calls deprecated on a builder."""
        super().__init__(app, env)
        self.application = app

    def init(self) -> None:
        """Read what was written."""
        super().init()
        name = f"written-{digest(str(self.outdir))}.json"
        self.record = Path(self.doctreedir, name)
        self.before = Record.read(self.record)

    def get_outdated_docs(self) -> Iterator[str]:
        """Return none: Sphinx asks before it reads, :meth:`compare` later."""
        return iter(())

    def build_specific(  # type: ignore[misc]
        self, filenames: Sequence[Path]
    ) -> None:
        """Refuse to write named pages alone: all others would stay old."""
        message = "a page cannot be built alone: name no file"
        stop([Problem(Path(filenames[0]), 1, message)])

    def compare(self) -> None:
        """Find the pages that are to be written, and what has changed."""
        self.shared = page_fingerprints.shared(self)
        self.pages = page_fingerprints.own(self.application)
        changed = self.shared.changes_since(self.before.shared)
        # Nothing is known of the files where the last build was ended early.
        if self.before.files and self.files() != self.before.files:
            changed = [*changed, "a file of the site"]  # by another hand
        warned = warned_before(self.application)
        self.reasons = {}
        for name, page in self.pages.items():
            why = changed + page.changes_since(
                self.before.pages.get(name, Fingerprint())
            )
            if name in warned:
                why.append("a warning of the last build")
            if not self.get_output_path(name).exists():
                why = ["it is not there"]
            if why:
                self.reasons[name] = why

    def files(self) -> dict[str, int]:
        """Return the size of each file of the site, by its path."""
        kept = Path(self.doctreedir)  # by default, below the site
        return sizes(Path(self.outdir), "*", but_below=kept)

    def doctrees(self) -> dict[str, int]:
        """Return the size of each doctree, by its path."""
        return sizes(Path(self.doctreedir), "*.doctree")

    def prepare_writing(self, docnames: Set[str]) -> None:
        """Strike from the record what is about to be written or removed."""
        self.written = self.reasons.keys() | docnames
        gone = self.before.pages.keys() - self.pages.keys()
        self.is_current = not self.written and not gone
        if self.is_current:
            return
        for name in gone:
            remove(self.get_output_path(name))
        kept = self.pages.keys() - self.written
        pages = {name: self.pages[name] for name in kept}
        Record(self.shared, pages).write(self.record)
        super().prepare_writing(docnames)

    def copy_assets(self) -> None:
        """Copy what pages load, if there is something to write."""
        if not self.is_current:
            super().copy_assets()

    def finish(self) -> None:
        """Write what belongs to all pages, if there is something to write."""
        if not self.is_current:
            super().finish()
            write_site_files(self.application)

    def cleanup(self) -> None:
        """Record what was written, if each page is whole; the last step.

        The theme writes a style of its own even after ``build-finished``.
        """
        if not self.is_current:
            for name in sorted(self.pages):
                path = self.get_output_path(name)
                if not path.exists() or not _is_whole(path):
                    stop([Problem(path, 1, "this page was not written whole")])
            there = self.files(), self.doctrees()
            Record(self.shared, self.pages, *there).write(self.record)
        release()


def _is_whole(page: Path) -> bool:
    return bytes_of(page).rstrip().endswith(_END)


def _damaged(app: Sphinx, env: BuildEnvironment, *_: Set[str]) -> list[str]:
    """Return the pages whose doctree was changed by another hand."""
    builder = builder_of(app)
    there = builder.doctrees()
    return sorted(
        path.removesuffix(".doctree")
        for path, size in builder.before.doctrees.items()
        if there.get(path) != size
    )


def _outdated(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages to write, now that all are read; say why."""
    builder = builder_of(app)
    builder.compare()
    log_reasons("to be written", builder.reasons)
    return sorted(builder.reasons.keys() & env.found_docs)


def _refuse(app: Sphinx) -> None:
    """Stop another builder before any program is run.

    Panels, tables and notebooks are HTML, or stand beside it.
    """
    if not isinstance(app.builder, SiteBuilder):
        message = (
            f"the site cannot be built as {app.builder.name}:"
            " build html, with -b html or without -b"
        )
        stop([Problem(Path(app.confdir, "conf.py"), 1, message)])


def setup_builder(app: Sphinx) -> None:
    """Take the place of Sphinx's own builder of HTML."""
    app.add_builder(SiteBuilder, override=True)
    app.connect("builder-inited", _refuse)
    app.connect("env-get-outdated", _damaged)
    app.connect("env-updated", _outdated)
