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
from packaging.specifiers import SpecifierSet

from extensions.core.reading import python_of, text_of, toml_of
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
STEPS = [step for param in JOBS for step in param.values[0]["steps"]]
CALLED = re.compile(r"/nox -s \"?([a-z ]+)")
NOXFILE = python_of(ROOT / "noxfile.py")
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
    [found] = [
        ast.literal_eval(node.value)
        for node in NOXFILE.body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == name
    ]
    return found


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


def test_no_checkout_leaves_a_token_behind():
    found = [
        step["with"]["persist-credentials"]
        for step in STEPS
        if step.get("uses", "").startswith("actions/checkout@")
    ]

    assert found
    assert not any(found)


@pytest.mark.parametrize("name", TEXTS)
def test_each_session_that_is_called_exists(name):
    sessions = {
        node.name
        for node in NOXFILE.body
        if isinstance(node, ast.FunctionDef) and node.decorator_list
    }

    assert called_in(TEXTS[name])
    assert called_in(TEXTS[name]) <= sessions


@pytest.mark.parametrize("name", TEXTS)
def test_what_a_workflow_sets_is_read(name):
    readers = text_of(ROOT / "conf.py") + text_of(ROOT / "noxfile.py")

    for variable in WORKFLOWS[name].get("env", {}):
        assert variable in readers or variable.startswith("PIP_")


def test_the_claims_are_tested_on_each_python_that_is_supported():
    matrix = WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    project = toml_of(ROOT / "pyproject.toml")["project"]
    supported = SpecifierSet(project["requires-python"])
    minors = [int(each.partition(".")[2]) for each in matrix]

    assert project["classifiers"] == [
        f"Programming Language :: Python :: {each}" for each in matrix
    ]
    assert minors == [*range(minors[0], minors[-1] + 1)]
    assert all(each in supported for each in matrix)
    assert f"3.{minors[0] - 1}" not in supported


def test_the_checks_are_those_that_run_here():
    """The gate, and what .ci/run does besides."""
    besides = called_in(text_of(ROOT / ".ci/run"))

    assert besides
    assert called_in(TEXTS["ci"]) == {
        *constant("nox.options.sessions"),
        "docs",
        *besides,
    }


def test_what_is_published_was_built_without_a_fault():
    pages = WORKFLOWS["pages"]["jobs"]
    *_, build, upload, keep = pages["build"]["steps"]

    assert build["run"].endswith("/nox -s docs")
    assert "if" not in build.keys() | upload.keys() | keep.keys()
    assert upload["with"]["path"] == constant("HTML")
    assert (ROOT / keep["with"]["path"]).name in ARCHIVES
    assert pages["publish"]["needs"] == "build"
    assert pages["notebooks"]["needs"] == "publish"
    assert "pull_request" not in WORKFLOWS["pages"][True]


def test_each_recorded_torch_has_a_job():
    matrix = WORKFLOWS["evidence"]["jobs"]["versions"]["strategy"]["matrix"]

    assert matrix["torch"] == constant("OTHER_TORCHES")


SEEN = "issue view 7 --json body --jq .body"
EDITED = "issue edit 7 --body-file body.md"
TOLD = "issue comment 7 --body-file body.md"
OPENED = [
    "label create canary --force"
    " --description The next torch makes a sentence false",
    "issue create --title Sentences are about to become false"
    " --label canary --body-file body.md",
]


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
@pytest.mark.parametrize(
    ("number", "known", "expected"),
    [
        pytest.param("", "", OPENED, id="none is open"),
        pytest.param("7", "> It was so.", [SEEN, EDITED], id="known"),
        pytest.param("7", "> Another.", [SEEN, EDITED, TOLD], id="others"),
        pytest.param("7", "", [SEEN, EDITED, TOLD], id="none known"),
    ],
)
def test_a_report_opens_an_issue_or_renews_the_open_one(
    tmp_path, number, known, expected
):
    [step] = WORKFLOWS["canary"]["jobs"]["issue"]["steps"][1:]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gh").write_text(PASSES)
    (tmp_path / "bin/gh").chmod(0o755)
    report = "# report\n\n> It was so.\n\n" + 9 * 9999 * "a"
    (tmp_path / "canary.md").write_text(report)
    subprocess.run(
        ["bash", "-e", "-c", step["run"]],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
            "OPEN": number,
            "KNOWN": known,
            "RUN": "https://github.com/a/b/actions/runs/1",
        },
        check=True,
    )

    _, *said = (tmp_path / "said").read_text().splitlines()
    assert said == expected
    body = (tmp_path / "body.md").read_text()
    assert body.startswith("Reported by https://github.com/a/b/actions/")
    assert "\n\n# report\n" in body
    assert len(body) < 65_536
