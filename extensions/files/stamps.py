"""Which programs have run, and with what: a stamp beside the outputs of each.

sphinx-gallery's own cache looks at the program alone, and believes itself
before it has written the outputs.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from functools import cache
from pathlib import Path

from extensions.files.reading import bytes_of
from extensions.files.topics import ROOT, Topic, sha256, topics
from extensions.files.writing import remove, write

# Ours that outputs rest on: how figures are drawn, how programs are run.
MAKERS = ("figures.py", "fresh_torch.py", "run_programs.py")
# What a program draws, and all that it leaves, by its name, and no other whose
# name holds it.
DRAWN = (
    "images/sphx_glr_{}_[0-9]*",
    "images/thumb/sphx_glr_{}_thumb.*",
)
LEFT = ("{}.*", "images/measured_{}_[0-9]*", *DRAWN)


def path_of(topic: Topic) -> Path:
    """Return where the stamp of a program stands."""
    return topic.output.with_suffix(".ran")


@cache
def surroundings() -> str:
    """Return a hash of what is installed and of what runs the programs."""
    # A name and a version each, as pip writes them; to read them out of the
    # files below takes forty times as long.
    parts = {path.name for at in sys.path for path in Path(at).glob("*-info")}
    lines = [platform.python_version(), *sorted(parts)]
    found = hashlib.sha256("\n".join(lines).encode())
    for name in MAKERS:
        found.update(bytes_of(ROOT / "extensions/site" / name))
    return found.hexdigest()


@cache
def our_code() -> str:
    """Return a hash of the extensions: what reads and writes the pages."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "extensions").rglob("*.py")):
        found.update(bytes_of(path))
    return found.hexdigest()


def stamp_of(topic: Topic) -> str:
    """Return what the stamp of a program says if it has run as it is now."""
    return f"program {sha256(topic.snippet)}\nwith {surroundings()}\n"


def has_run(topic: Topic) -> bool:
    """Whether a program has run as it is now, to its end."""
    path = path_of(topic)
    if not path.exists() or not topic.output.exists():
        return False
    return bytes_of(path) == stamp_of(topic).encode()


def forget(topic: Topic) -> None:
    """Make sphinx-gallery run a program again."""
    for ending in (".ran", ".woven", ".py.md5"):
        remove(topic.output.with_suffix(ending))
    for pattern in DRAWN:  # or an old thumbnail of another format is taken
        for path in topic.output.parent.glob(
            pattern.format(topic.snippet.stem)
        ):
            remove(path)


def note(topic: Topic) -> None:
    """Note that a program has run to its end."""
    write(path_of(topic), stamp_of(topic))


def sweep(root: Path) -> None:
    """Remove what programs have left that are no more."""
    known = {path_of(topic) for topic in topics(root)}
    for stamp in root.glob("docs/**/*.ran"):
        if stamp in known:
            continue
        folder, name = stamp.parent, stamp.stem
        for pattern in LEFT:
            for path in folder.glob(pattern.format(name)):
                remove(path)
