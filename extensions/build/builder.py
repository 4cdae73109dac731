"""The builder of the site: it writes what has changed, and nothing else.

Beside the doctrees it keeps a record, for each folder that it writes, of what
each page was written from, and of all files that then stood there. Sphinx asks
only whether a source is newer than its page, and so takes a page for current
that a build was ended before writing.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, cast

from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.util import logging

from extensions.build import page_fingerprints
from extensions.build.errors import stop
from extensions.build.lock import release
from extensions.build.repeated_warnings import warned_before
from extensions.build.site_files import write_site_files
from extensions.core.fingerprint import Fingerprint, digest
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, json_of
from extensions.core.writing import remove, write

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

logger = logging.getLogger(__name__)

END = b"</html>"
NAMED = 4  # pages, where many are written for one reason


def builder_of(app: Sphinx) -> SiteBuilder:
    """Return the builder, which no feature has to ask what it is.

    The site is built as HTML alone; another builder is refused.
    """
    return cast(SiteBuilder, app.builder)


class SiteBuilder(StandaloneHTMLBuilder):
    """Writes a page if what it is written from has changed."""

    search = False  # the site brings its own
    shared = Fingerprint()
    """What every page is to be written from."""
    pages: dict[str, Fingerprint]
    """By page: what it is to be written from besides."""
    reasons: dict[str, list[str]]
    """By page that this build writes: what has changed."""
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
        self.record = Path(
            self.doctreedir, f"written-{digest(str(self.outdir))}.json"
        )
        kept: dict[str, dict[str, object]] = {}
        with contextlib.suppress(Problem, TypeError):  # none, or damaged
            kept = dict(json_of(self.record))
        self.shared_before = Fingerprint.read(kept.get("shared"))
        self.before = {
            name: Fingerprint.read(each)
            for name, each in dict(kept.get("pages", {})).items()
        }
        self.files_before = dict(kept.get("files", {}))
        self.doctrees_before = dict(kept.get("doctrees", {}))

    def get_outdated_docs(self) -> Iterator[str]:
        """Return none: Sphinx asks before it reads, :meth:`behind` later."""
        return iter(())

    def behind(self) -> dict[str, list[str]]:
        """Return each page that is to be written, with what has changed."""
        self.shared = page_fingerprints.shared(self)
        self.pages = page_fingerprints.own(self.application)
        changed = self.shared.changes_since(self.shared_before)
        if not changed and self.before and self.files() != self.files_before:
            changed = ["a file of the site"]  # by another hand
        none, warned = Fingerprint(), warned_before(self.application)
        found = {}
        for name, page in self.pages.items():
            why = changed + page.changes_since(self.before.get(name, none))
            why += ["a warning of the last build"] if name in warned else []
            if why or not self.get_output_path(name).exists():
                found[name] = why if name in self.before else ["new"]
        return found

    def files(self) -> dict[str, int]:
        """Return the size of each file of the site, by its path."""
        kept = Path(self.doctreedir)  # by default, below the site
        return _sizes(Path(self.outdir), "*", but_below=kept)

    def doctrees(self) -> dict[str, int]:
        """Return the size of each doctree, by its path."""
        return _sizes(Path(self.doctreedir), "*.doctree")

    def prepare_writing(self, docnames: Set[str]) -> None:
        """Strike from the record what is about to be written or removed."""
        self.written = self.reasons.keys() | docnames
        gone = self.before.keys() - self.pages.keys()
        self.is_current = not self.written and not gone
        if self.is_current:
            return
        for name in gone:
            remove(self.get_output_path(name))
        self.note(self.pages.keys() - self.written)
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
                if not path.exists() or not is_whole(path):
                    stop([Problem(path, 1, "this page was not written whole")])
            self.note(self.pages.keys(), is_end=True)
        release()

    def note(self, names: Set[str], *, is_end: bool = False) -> None:
        """Record that some pages are written, and at the end what is there."""
        record = {
            "shared": self.shared.parts,
            "pages": {name: self.pages[name].parts for name in sorted(names)},
            "files": self.files() if is_end else {},
            "doctrees": self.doctrees() if is_end else {},
        }
        write(self.record, json.dumps(record, indent=0) + "\n")


def _sizes(
    folder: Path, pattern: str, but_below: Path | None = None
) -> dict[str, int]:
    return {
        path.relative_to(folder).as_posix(): path.stat().st_size
        for path in sorted(folder.rglob(pattern))
        if path.is_file() and but_below not in path.parents
    }


def damaged(app: Sphinx, env: BuildEnvironment, *_: Set[str]) -> list[str]:
    """Return the pages whose doctree was changed by another hand."""
    builder = builder_of(app)
    there = builder.doctrees()
    return sorted(
        path.removesuffix(".doctree")
        for path, size in builder.doctrees_before.items()
        if there.get(path) != size
    )


def outdated(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages to write, now that all are read; say why."""
    builder = builder_of(app)
    builder.reasons = builder.behind()
    because: dict[str, list[str]] = {}
    for name, why in sorted(builder.reasons.items()):
        because.setdefault(", ".join(why), []).append(name)
    for reason, names in because.items():
        logger.info("%s: to be written (%s)", several(names), reason)
        logger.verbose("that is %s", ", ".join(names))
    return sorted(builder.reasons.keys() & env.found_docs)


def several(names: list[str]) -> str:
    """Return some names, or how many there are."""
    return ", ".join(names) if len(names) <= NAMED else f"{len(names)} pages"


def is_whole(page: Path) -> bool:
    """Whether a page was written to its end."""
    return bytes_of(page).rstrip().endswith(END)


def refuse(app: Sphinx) -> None:
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
    app.connect("builder-inited", refuse)
    app.connect("env-get-outdated", damaged)
    app.connect("env-updated", outdated)
