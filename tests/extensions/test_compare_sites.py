"""Two builds are compared by what a reader gets."""

import json
import subprocess
import sys

import pytest

from extensions.core.topics import ROOT

PAGE = """<html><head><title>One</title>
<script>let when = "STAMP"</script>
<link rel="stylesheet" href="house.css?v=STAMP"></head>
<body><p>Some <b>words</b>.</p><pre>a = 1\nb = 2</pre></body></html>
"""


@pytest.fixture
def sites(tmp_path):
    """Two sites of one page and one claim, which differ in a stamp."""
    claim = {"topic": "part/one", "id": "it-holds", "verdict": "passed"}
    for name, stamp in (("old", "0a1b2c3d"), ("new", "f" * 8)):
        (tmp_path / name / "part").mkdir(parents=True)
        page = PAGE.replace("STAMP", stamp)
        (tmp_path / name / "part/one.html").write_text(page)
        claims = json.dumps({"claims": [claim]})
        (tmp_path / name / "claims.json").write_text(claims)
    return tmp_path / "old", tmp_path / "new"


def compared(sites):
    """Return the status and what is said, but for the weight."""
    command = [sys.executable, ROOT / "tools/compare_sites.py", *sites]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()[:-1]


def test_sites_that_differ_in_a_stamp_are_the_same(sites):
    assert compared(sites) == (0, [])


def test_what_a_reader_would_see_differ_is_named(sites):
    old, new = sites
    (old / "gone.json").touch()
    (new / "two.html").touch()
    for name, old_text, new_text in (
        ("part/one.html", "</b>", "</b> more"),
        ("part/one.html", "b = 2", "b = 3"),
        ("claims.json", "passed", "failed"),
    ):
        text = (new / name).read_text()
        (new / name).write_text(text.replace(old_text, new_text))

    assert compared(sites) == (
        1,
        [
            "- file gone.json",
            "+ file two.html",
            "~ claim part/one#it-holds: passed → failed",
            "~ text of part/one.html:",
            "    -Some words.",
            "    +Some words more.",
            "    -b = 2",
            "    +b = 3",
        ],
    )
