"""Which programs have run, and with what: a stamp beside the outputs of each.

The stamp is the fingerprint of a run: the program, what it ran with, and each
file that it left. sphinx-gallery's own cache looks at the program alone, and
believes itself before it has written the outputs.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from extensions.core.environment import (
    device,
    environment_variables,
    installed,
    our_code,
)
from extensions.core.files import (
    Problem,
    bytes_of,
    json_of,
    remove,
    text_of,
    write,
)
from extensions.core.fingerprint import Fingerprint
from extensions.core.topics import Topic, topics

# What a program draws, and all that it leaves, by its name, and no other whose
# name holds it.
_DRAWN = (
    "images/sphx_glr_{}_[0-9]*",
    "images/thumb/sphx_glr_{}_thumb.*",
)
_LEFT = ("{}.*", *_DRAWN)
# Of what is left: what pages show, and what sphinx-gallery reads again.
_OUTPUTS = ("{}.rst", "{}.py", "{}.py.md5", "{}.codeobj.json", *_DRAWN)
NO_RUN = "no run of it is recorded"


def path_of(topic: Topic) -> Path:
    """Return where the stamp of a program stands."""
    return topic.output.with_suffix(".ran")


def surroundings(settings: str) -> Fingerprint:
    """Return what every program runs with, given sphinx-gallery's settings."""
    return Fingerprint.of(
        {
            "the libraries": installed(),
            "the device": device(),
            "our code": our_code("programs", "core"),
            "sphinx_gallery_conf": settings,
            **environment_variables(),
        }
    )


def _fingerprint_of(program: Path, topic: Topic, settings: str) -> Fingerprint:
    """Return what the outputs of a topic were made from, and what they are."""
    folder = topic.output.parent
    outputs = {
        path.relative_to(folder).as_posix(): bytes_of(path)
        for path in _found(topic, _OUTPUTS)
    }
    found = Fingerprint.of({"the program": text_of(program), **outputs})
    return Fingerprint({**surroundings(settings).parts, **found.parts})


def why_stale(topic: Topic, settings: str) -> list[str]:
    """Return why a program has to run; nothing if its outputs are right."""
    stamp = Fingerprint()
    with contextlib.suppress(Problem):  # there is none, or it is damaged
        stamp = Fingerprint.read(json_of(path_of(topic)))
    if not stamp.parts:
        return [NO_RUN]
    now = _fingerprint_of(topic.snippet, topic, settings)
    return now.changes_since(stamp)


def forget(topic: Topic) -> None:
    """Make sphinx-gallery run a program again."""
    for ending in (".ran", ".py.md5"):
        remove(topic.output.with_suffix(ending))
    for path in _found(topic, _DRAWN):
        remove(path)  # or an old thumbnail of another format is taken


def note(topic: Topic, settings: str) -> None:
    """Note that a program has run to its end.

    What ran is the copy that sphinx-gallery made: the program itself may have
    been edited since.
    """
    copy = topic.output.with_suffix(".py")
    found = _fingerprint_of(copy, topic, settings)
    write(path_of(topic), json.dumps(found.parts, indent=0) + "\n")


def sweep(root: Path) -> None:
    """Remove what programs have left that are no more."""
    known = {path_of(topic) for topic in topics(root)}
    for stamp in root.glob("docs/**/*.ran"):
        if stamp not in known:
            name = stamp.relative_to(root / "docs").with_suffix("").as_posix()
            gone = Topic(root, name.removeprefix("code/"))
            for path in _found(gone, _LEFT):
                remove(path)


def _found(topic: Topic, patterns: tuple[str, ...]) -> list[Path]:
    folder, name = topic.output.parent, topic.output.stem
    return sorted(
        path
        for pattern in patterns
        for path in folder.glob(pattern.format(name))
    )
