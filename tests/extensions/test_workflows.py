"""The workflows of GitHub do what nox does here, and may do nothing more."""

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

FOLDER = ROOT / ".github/workflows"
PATHS = sorted(FOLDER.iterdir())
TEXTS = {path.stem: text_of(path) for path in PATHS}
# The key of the triggers, `on`, is a truth value in the YAML that this reads.
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXTS.items()}
JOBS = [
    pytest.param(job, id=f"{name}-{key}")
    for name, workflow in WORKFLOWS.items()
    for key, job in workflow["jobs"].items()
]
STEPS = [step for param in JOBS for step in param.values[0]["steps"]]
PYPROJECT = toml_of(ROOT / "pyproject.toml")
NOXFILE = python_of(ROOT / "noxfile.py")
SESSIONS = {
    node.name
    for node in NOXFILE.body
    if isinstance(node, ast.FunctionDef) and node.decorator_list
}
PINNED = re.compile(r"uses: (actions/[a-z-]+@[0-9a-f]{40}) # (v\d+\.\d+\.\d+)")
# What may do more than read, and what for.
WRITES = {
    ("canary", "issue"): {"issues": "write"},
    ("evidence", "release"): {"contents": "write"},
    ("pages", "publish"): {"pages": "write", "id-token": "write"},
}
# The ways in which a command of the README starts.
START, SESSION = re.findall(
    r"^(python3 -m venv .* && )(\.venv/bin/nox)$",
    text_of(ROOT / "README.md"),
    re.MULTILINE,
)[0]
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


def test_there_are_workflows_and_nothing_else():
    assert [path.name for path in PATHS] == [
        "canary.yml",
        "ci.yml",
        "evidence.yml",
        "pages.yml",
    ]


@pytest.mark.parametrize("name", TEXTS)
def test_each_action_is_pinned_by_its_hash_and_is_githubs_own(name):
    text = TEXTS[name]

    assert len(PINNED.findall(text)) == text.count("uses:") > 0


def test_an_action_is_pinned_once():
    found = {pin for text in TEXTS.values() for pin in PINNED.findall(text)}

    assert len({pin.partition("@")[0] for pin, _ in found}) == len(found)


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_nothing_and_its_jobs_little(name):
    workflow = WORKFLOWS[name]

    assert workflow["permissions"] == {}
    for key, job in workflow["jobs"].items():
        allowed = WRITES.get((name, key), {"contents": "read"})
        assert job["permissions"] == allowed


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_runs_once_at_a_time(name):
    assert WORKFLOWS[name]["concurrency"]["group"].startswith(name)


@pytest.mark.parametrize("job", JOBS)
def test_a_job_ends_in_time(job):
    assert 0 < job["timeout-minutes"] <= 120


@pytest.mark.parametrize("job", JOBS)
def test_what_may_write_runs_nothing_of_ours(job):
    uses = [step.get("uses", "").partition("@")[0] for step in job["steps"]]
    token = "secrets." in str(job) or "actions/deploy-pages" in uses

    assert ("write" in job["permissions"].values()) is token
    assert ("actions/checkout" in uses) is not token


def test_no_checkout_leaves_a_token_behind():
    found = [
        step["with"]["persist-credentials"]
        for step in STEPS
        if step.get("uses", "").startswith("actions/checkout@")
    ]

    assert found
    assert not any(found)


def test_no_step_puts_what_others_wrote_into_a_command():
    assert not any("${{" in step.get("run", "") for step in STEPS)


@pytest.mark.parametrize("job", JOBS)
def test_each_command_is_one_of_the_readme_with_a_session_that_exists(job):
    commands = [step["run"] for step in job["steps"] if "run" in step]
    if "write" in job["permissions"].values():
        return  # it has no checkout, and calls gh alone, or nothing

    if job["runs-on"].startswith("windows-"):
        assert "python3" not in commands[0]
        assert ".venv/bin" not in commands[0]
        commands = [
            each.replace("python -m", "python3 -m").replace("Scripts", "bin")
            for each in commands
        ]
    assert START in commands[0]
    for command in commands:
        called = command.replace(START, "").strip().splitlines()[-1]
        assert called.startswith(f"{SESSION} -s ")
        names, _, _ = called.removeprefix(f"{SESSION} -s ").partition(" -- ")
        found = [name.strip('"').partition("(")[0] for name in names.split()]
        assert set(found) <= SESSIONS


def test_the_claims_are_tested_on_each_python_that_is_supported():
    matrix = WORKFLOWS["ci"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    project = PYPROJECT["project"]
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
    text = TEXTS["ci"]
    local = text_of(ROOT / ".ci/run")
    named = {
        name
        for called in re.findall(r"nox -s ([a-z ]+?)(?: --|$)", text, re.M)
        for name in called.split()
    }
    besides = re.findall(r"^\s*\.venv/bin/nox -s (\w+)", local, re.M)

    assert besides
    assert named == {"lint", "types", "tests", "docs", *besides}


def test_the_tests_run_on_each_system():
    jobs = WORKFLOWS["ci"]["jobs"]
    systems = {
        job["runs-on"].partition("-")[0]: job.get("continue-on-error", False)
        for job in jobs.values()
        if any(step.get("run", "").endswith(" tests") for step in job["steps"])
    }

    # What fails elsewhere is to be read; what fails on Linux is a fault.
    assert systems == {"ubuntu": False, "macos": True, "windows": True}


def test_what_is_published_was_built_without_a_fault():
    pages = WORKFLOWS["pages"]["jobs"]
    *_, build, upload = pages["build"]["steps"]

    assert build["run"].endswith(f"{SESSION} -s docs")
    assert "if" not in build.keys() | upload.keys()
    assert upload["with"]["path"] == constant("HTML")
    assert pages["publish"]["needs"] == "build"
    assert "pull_request" not in WORKFLOWS["pages"][True]


def test_the_site_knows_where_it_is_published():
    address = WORKFLOWS["pages"]["env"]["PROVEN_PYTORCH_URL"]

    assert "PROVEN_PYTORCH_URL" in text_of(ROOT / "conf.py")
    assert "vars.PROVEN_PYTORCH_URL" in address
    assert "github.io" in address


def test_the_site_of_a_pull_request_is_an_artifact_of_its_own():
    job = WORKFLOWS["ci"]["jobs"]["site"]
    [upload] = [
        step
        for step in job["steps"]
        if "actions/upload-artifact" in step.get("uses", "")
    ]

    assert "pull_request" in WORKFLOWS["ci"][True]
    assert upload["with"]["path"] == constant("HTML")
    assert job["permissions"] == {"contents": "read"}


def test_each_recorded_torch_has_a_job():
    matrix = WORKFLOWS["evidence"]["jobs"]["versions"]["strategy"]["matrix"]

    assert matrix["torch"] == constant("OTHER_TORCHES")


def test_the_canary_runs_the_command_that_is_tested():
    run = WORKFLOWS["canary"]["jobs"]["claims"]["steps"][-2]["run"]
    session = next(
        ast.unparse(node)
        for node in NOXFILE.body
        if isinstance(node, ast.FunctionDef) and node.name == "canary"
    )

    assert run.endswith(f"{SESSION} -s canary -- canary.md")
    assert "session.run(*CANARY, *session.posargs)" in session
    assert constant("CANARY")[:2] == ["python", "-m"]
    assert "TORCH_NIGHTLY_INDEX" in session
    assert "TORCH_NIGHTLY_INDEX" in WORKFLOWS["canary"]["env"]


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
