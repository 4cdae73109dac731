"""What programs gave elsewhere that need a library which is not installed.

Some libraries fit only another torch than the one that is locked. Their
programs run where ``nox -s pretrained`` installs both, and what each block
gave is kept in ``evidence/programs/``. A build without the libraries shows
that, as long as the program is the same. Imports neither Sphinx nor torch.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

from extensions.core.files import Problem, json_of, text_of, write
from extensions.core.fingerprint import digest
from extensions.core.topics import Topic
from extensions.programs.outputs import outputs_of
from extensions.programs.snippet import imported

_PROGRAM, _OUTPUTS = "program", "outputs"


def record_of(topic: Topic) -> Path:
    """Return where the outputs of a program are recorded, if they are."""
    return topic.root / "evidence/programs" / f"{topic.name}.json"


def recorded(topic: Topic) -> dict[int, str] | None:
    """Return what a program gave elsewhere, by the lines of its code.

    None, if it can run here, or if nothing is recorded.

    Raises
    ------
    Problem
        If another program was recorded.
    """
    program, path = text_of(topic.snippet), record_of(topic)
    lacking = sorted(each for each in imported(program) if not find_spec(each))
    if not lacking or not path.is_file():
        return None
    kept = json_of(path)
    if kept[_PROGRAM] != digest(program):
        what = f"changed, and {', '.join(lacking)} is not installed here"
        message = f"{what}: record it with 'nox -s pretrained'"
        raise Problem(topic.snippet, 1, message)
    said = kept[_OUTPUTS]
    return {int(line): f"\n{said[line]}\n\n\n" for line in said}


def keep(topic: Topic) -> None:
    """Record what a program has just given."""
    found = {_PROGRAM: digest(text_of(topic.snippet))}
    given = outputs_of(topic).items()
    said = {line: output.strip("\n") for line, output in given}
    content = json.dumps(found | {_OUTPUTS: said}, indent=1)
    write(record_of(topic), content + "\n")
