"""Which programs have run, and with what: a stamp beside the outputs of each.

sphinx-gallery's own cache looks at the program alone, and believes itself
before it has written the outputs.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from extensions.core.environment import installed
from extensions.core.reading import bytes_of
from extensions.core.topics import ROOT, Topic, sha256, topics
from extensions.core.writing import remove, write

# Ours that outputs rest on: how figures are drawn, how programs are run.
MAKERS = ("figures.py", "fresh_torch.py", "sphinx_runner.py")
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
    found = hashlib.sha256(installed().encode())
    for name in MAKERS:
        found.update(bytes_of(ROOT / "extensions/programs" / name))
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
