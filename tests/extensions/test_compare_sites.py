"""Two builds are compared by what a reader gets."""

import json
import subprocess
import sys

from extensions.core.topics import ROOT

PAGE = """<html><head><title>One</title>
<script>let when = "STAMP"</script>
<link rel="stylesheet" href="house.css?v=STAMP"></head>
<body><p>Some <b>words</b>.</p><pre>a = 1\nb = 2</pre></body></html>
"""


CLAIM = {"topic": "part/one", "id": "it-holds", "verdict": "passed"}


def compared(*sites):
    """Return the status and what is said, but for the weight."""
    command = [sys.executable, ROOT / "tools/compare_sites.py", *sites]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()[:-1]


def test_what_a_reader_would_see_differ_is_named_and_no_stamp(tmp_path):
    old, new = sites = tmp_path / "old", tmp_path / "new"
    for site, stamp in zip(sites, ("0a1b2c3d", "f" * 8), strict=True):
        (site / "part").mkdir(parents=True)
        page = PAGE.replace("STAMP", stamp)
        (site / "part/one.html").write_text(page)
        (site / "claims.json").write_text(json.dumps({"claims": [CLAIM]}))
    assert compared(*sites) == (0, [])

    (old / "gone.json").touch()
    (new / "two.html").touch()
    page = page.replace("</b>", "</b> more").replace("b = 2", "b = 3")
    (new / "part/one.html").write_text(page)
    claims = json.dumps({"claims": [CLAIM | {"verdict": "failed"}]})
    (new / "claims.json").write_text(claims)

    assert compared(*sites) == (
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
