"""Two builds are compared by what a reader gets."""

import json
import subprocess
import sys

from extensions.core.topics import ROOT

PAGE = """<html><head><title>{title}</title>
<script>let when = "{title}"</script>
<link rel="stylesheet" href="house.css?v={stamp}"></head>
<body><p>Some <b>words</b>{more}.</p><pre>a = 1\n{code}</pre></body></html>
"""


def write(site, *, title="One", stamp="0a1b2c3d", more="", code="b = 2"):
    """Write a site of one page and one claim; return its folder."""
    (site / "part").mkdir(parents=True)
    text = PAGE.format(title=title, stamp=stamp, more=more, code=code)
    (site / "part/one.html").write_text(text)
    claim = {"topic": "part/one", "id": "it-holds", "verdict": "passed"}
    (site / "claims.json").write_text(json.dumps({"claims": [claim]}))
    return site


def compared(old, new):
    """Return the status and what is said, but for the weight."""
    command = [sys.executable, ROOT / "tools/compare_sites.py", old, new]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()[:-1]


def test_sites_that_differ_in_a_stamp_are_the_same(tmp_path):
    old, new = write(tmp_path / "old"), write(tmp_path / "new", stamp="f" * 8)

    assert compared(old, new) == (0, [])


def test_what_a_page_says_and_what_its_code_shows_is_compared(tmp_path):
    old = write(tmp_path / "old")
    new = write(tmp_path / "new", more=" more", code="b = 3")

    assert compared(old, new) == (
        1,
        [
            "~ text of part/one.html:",
            "    -Some words.",
            "    +Some words more.",
            "    -b = 2",
            "    +b = 3",
        ],
    )


def test_what_is_added_and_taken_away_is_named(tmp_path):
    old, new = write(tmp_path / "old"), write(tmp_path / "new")
    (old / "gone.json").touch()
    (new / "two.html").touch()
    claims = json.loads((new / "claims.json").read_text())
    claims["claims"][0]["verdict"] = "failed"
    (new / "claims.json").write_text(json.dumps(claims))

    assert compared(old, new) == (
        1,
        [
            "- file gone.json",
            "+ file two.html",
            "~ claim part/one#it-holds: passed → failed",
        ],
    )
