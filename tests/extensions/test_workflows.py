"""The workflows of GitHub do what nox does here, and may do nothing more.

That actions are GitHub's own and pinned, and that nothing from outside gets
into a command, is what zizmor checks, in ``nox -s lint``.
"""

import ast
import os
import re
import subprocess
import sys

import pytest
import yaml

from extensions.core.files import text_of, toml_of
from extensions.core.topics import ROOT
from extensions.notebooks.sphinx_offer import ARCHIVES

TEXTS = {
    path.stem: text_of(path)
    for path in sorted((ROOT / ".github/workflows").iterdir())
}
# The key of the triggers, `on`, is a truth value in the YAML that this reads.
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = [
    pytest.param(job, id=f"{name}-{key}")
    for name, workflow in WORKFLOWS.items()
    for key, job in workflow["jobs"].items()
]
CALLED = re.compile(r"/nox -s \"?([a-z ]+)")
NOXFILE = text_of(ROOT / "noxfile.py")
PASSES = """\
#!/usr/bin/env bash
printf '%s\\n' "$*" >> said
case "$1 $2" in
"issue list") printf '%s' "$OPEN" ;;
"issue view") printf 'Reported before\r\n\r\n%s\r\n' "$KNOWN" ;;
esac
"""


def constant(name):
    """Return what noxfile.py gives a name."""
    [found] = re.findall(rf"^{re.escape(name)} = (.*)$", NOXFILE, re.M)
    return ast.literal_eval(found)


def called_in(text):
    """Return the sessions that a text calls, in the ways of a shell."""
    return {name for names in CALLED.findall(text) for name in names.split()}


@pytest.mark.parametrize("job", JOBS)
def test_what_may_write_runs_nothing_of_ours(job):
    uses = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    writes = "write" in job["permissions"].values()
    token = "secrets." in str(job) or "actions/deploy-pages" in uses

    assert writes is token
    assert ("actions/checkout" in uses) is not token
    assert writes or job["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", TEXTS)
def test_each_session_that_is_called_exists(name):
    sessions = re.findall(r"^@nox.*\ndef (\w+)", NOXFILE, re.MULTILINE)

    assert called_in(TEXTS[name])
    assert called_in(TEXTS[name]) <= {*sessions}


def test_each_python_and_each_torch_has_a_job():
    ci, evidence = (WORKFLOWS[name]["jobs"] for name in ("ci", "evidence"))
    pythons = ci["tests"]["strategy"]["matrix"]["python"]
    torches = evidence["versions"]["strategy"]["matrix"]["torch"]
    project = toml_of(ROOT / "pyproject.toml")["project"]

    assert torches == constant("OTHER_TORCHES")
    assert project["requires-python"] == f">={pythons[0]}"
    assert project["classifiers"] == [
        f"Programming Language :: Python :: {each}" for each in pythons
    ]


def test_the_checks_are_those_that_run_here():
    """The gate, and what .ci/run does besides."""
    gate = {*constant("nox.options.sessions"), "docs"}
    besides = called_in(text_of(ROOT / ".ci/run"))

    assert besides
    assert called_in(TEXTS["ci"]) == gate | besides


def test_what_is_published_was_built_without_a_fault():
    pages = WORKFLOWS["pages"]["jobs"]
    *_, build, upload, keep = pages["build"]["steps"]

    assert build["run"].endswith("/nox -s docs")
    assert "if" not in build.keys() | upload.keys() | keep.keys()
    assert upload["with"]["path"] == constant("HTML")
    assert (ROOT / keep["with"]["path"]).name in ARCHIVES
    assert pages["publish"]["needs"] == "build"


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize(
    ("number", "known", "expected"),
    [
        ("", "", ["label", "issue create"]),
        ("7", "> So.", ["issue view 7", "issue edit 7"]),
        ("7", "> Another.", ["issue view 7", "issue edit 7", "issue comment"]),
    ],
    ids=["none is open", "so", "others"],
)
def test_a_report_opens_an_issue_or_renews_the_open_one(
    tmp_path, number, known, expected
):
    [step] = WORKFLOWS["canary"]["jobs"]["issue"]["steps"][1:]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gh").write_text(PASSES)
    (tmp_path / "bin/gh").chmod(0o755)
    (tmp_path / "canary.md").write_text("# report\n\n> So.\n" + 90_000 * "a")
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    said = {"PATH": path, "OPEN": number, "KNOWN": known, "RUN": "a-run"}
    command = ["bash", "-e", "-c", step["run"]]
    subprocess.run(command, cwd=tmp_path, env=os.environ | said, check=True)

    _, *calls = (tmp_path / "said").read_text().splitlines()
    assert len(calls) == len(expected)
    assert all(map(str.startswith, calls, expected))
    body = (tmp_path / "body.md").read_text()
    assert body.startswith("Reported by a-run")
    assert "\n\n# report\n" in body
    assert len(body) < 65_536  # what GitHub takes
