"""Let sphinx-gallery list the programs only if its lists would be others.

It reads all programs at every build, as they stand and as it copied them, to
write lists that mostly stand there already: a third of a build in which
nothing has changed. All programs have run by then.
"""

from __future__ import annotations

import contextlib
import json
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx_gallery.gen_gallery import generate_gallery_rst

from extensions.core.fingerprint import Fingerprint, digest
from extensions.core.problem import Problem
from extensions.core.reading import bytes_of, json_of
from extensions.core.writing import write
from extensions.programs.stamp import surroundings

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_STAMP = "code/.listed"
_FOLDERS = ("examples_dirs", "gallery_dirs")
# What it reads and what it writes, the code and the outputs of programs too.
_LISTED = ("*.py", "*.rst")


class _Lists:
    """The lists of one build, and the settings that they are made with."""

    def __init__(self, settings: str) -> None:
        self.settings = settings

    def now(self, app: Sphinx) -> Fingerprint:
        """Return what the lists are made from, and the lists themselves."""
        conf = app.config.sphinx_gallery_conf
        paths = {
            path
            for name in chain(*(conf[each] for each in _FOLDERS))
            for pattern in _LISTED
            for path in Path(app.srcdir, name).resolve().rglob(pattern)
        }
        files = [f"{path} {digest(bytes_of(path))}" for path in sorted(paths)]
        found = Fingerprint.of({"the programs and lists": "\n".join(files)})
        return Fingerprint(
            {**surroundings(self.settings).parts, **found.parts}
        )

    def make(self, app: Sphinx) -> None:
        """Let sphinx-gallery list the programs if that changes anything."""
        path = Path(app.srcdir, _STAMP)
        before = Fingerprint()
        with contextlib.suppress(Problem):  # there is none, or it is damaged
            before = Fingerprint.read(json_of(path))
        if self.now(app) != before:
            generate_gallery_rst(app)
            write(path, json.dumps(self.now(app).parts, indent=0) + "\n")


def setup_gallery_lists(app: Sphinx, settings: str) -> None:
    """Take the place of sphinx-gallery's own handler."""
    for each in [*app.events.listeners["builder-inited"]]:
        if each.handler is generate_gallery_rst:
            app.disconnect(each.id)
    app.connect("builder-inited", _Lists(settings).make)
