"""Files are read in one way, and written in one way."""

import re

from extensions.core.files import text_of
from extensions.core.topics import ROOT

# What opens a file by itself.
OPENS = re.compile(
    r"\.(open|(read|write)_(bytes|text))\b|(?<![\w.])open\("
    r"|\bElementTree\.parse\b|\bjson\.(dump|load)\b|\btomllib\.loads?\b"
)
ALLOWED = {"core/files.py"}


def test_a_module_opens_no_file_by_itself():
    found = {
        path.relative_to(ROOT / "extensions").as_posix(): OPENS.search(text)
        for path in (ROOT / "extensions").rglob("*.py")
        if (text := text_of(path))
    }

    assert {name for name in found if found[name]} == ALLOWED
