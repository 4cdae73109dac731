"""Let sphinx-gallery list the programs only if its lists would be others.

It reads all programs at every build, as they stand and as it copied them, to
write lists that mostly stand there already. Where they do, it is told of no
folder. All has run by then: ``run_programs`` has seen to that.
"""

from __future__ import annotations

import hashlib
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.core.reading import bytes_of
from extensions.core.writing import write
from extensions.programs.stamp import surroundings

if TYPE_CHECKING:
    from sphinx.application import Sphinx

STAMP = "code/.listed"
FOLDERS = ("examples_dirs", "gallery_dirs")
# What it reads and what it writes, the code and the outputs of programs too.
LISTED = ("*.py", "*.rst")


def now(app: Sphinx) -> str:
    """Return a hash of what the lists are made from, and of the lists."""
    conf = app.config.sphinx_gallery_conf
    paths = {
        path
        for name in chain(*(conf[each] for each in FOLDERS))
        for pattern in LISTED
        for path in Path(app.srcdir, name).resolve().rglob(pattern)
    }
    found = hashlib.sha256(surroundings().encode())
    for path in (Path(app.confdir, "conf.py"), *sorted(paths)):
        content = hashlib.sha256(bytes_of(path)).hexdigest()
        found.update(f"{path} {content}\n".encode())
    return found.hexdigest() + "\n"


class Lists:
    """The lists of one build."""

    def __init__(self) -> None:
        self.spared: dict[str, list[str]] = {}

    def spare(self, app: Sphinx) -> None:
        """Name no folders to sphinx-gallery if its lists stand there."""
        stamp = Path(app.srcdir, STAMP)
        if stamp.exists() and bytes_of(stamp) == now(app).encode():
            conf = app.config.sphinx_gallery_conf
            self.spared = {name: conf[name] for name in FOLDERS}
            conf.update({name: [] for name in FOLDERS})

    def note(self, app: Sphinx) -> None:
        """Name them again, or note what sphinx-gallery has listed."""
        if self.spared:
            app.config.sphinx_gallery_conf.update(self.spared)
        else:
            write(Path(app.srcdir, STAMP), now(app))


def setup_gallery_lists(app: Sphinx) -> None:
    """Load sphinx-gallery, and ask before it lists the programs."""
    lists = Lists()
    app.connect("builder-inited", lists.spare)
    app.setup_extension("sphinx_gallery.gen_gallery")
    app.connect("builder-inited", lists.note)
