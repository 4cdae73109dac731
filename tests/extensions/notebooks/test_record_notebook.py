"""The notebook that records a run on a reader's machine."""

import json
import subprocess
import sys

import nbformat
import pytest

from extensions.core.topics import ROOT
from extensions.notebooks.record_notebook import (
    NAME,
    commit_of,
    record_notebook,
)

# Settings of a try without a GPU.
ON_CPU = """
DEVICE, MACHINE = "cpu", "here"
TESTS, TOPICS = ["tests/part/test_one.py", "--numprocesses=0"], []
"""


def code_in(notebook):
    return [
        each["source"]
        for each in nbformat.reads(notebook, 4)["cells"]
        if each["cell_type"] == "code"
    ]


def test_it_is_a_notebook_that_names_repository_and_commit():
    notebook = record_notebook("https://example.org/guide", "0123abc")

    nbformat.validate(nbformat.reads(notebook, 4))
    settings = code_in(notebook)[0]
    assert 'REPOSITORY = "https://example.org/guide"  #' in settings
    assert 'COMMIT = "0123abc"' in settings
    for each in code_in(notebook):
        compile(each, NAME, "exec")


def test_the_commit_is_that_of_the_folder(tmp_path):
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=False)

    assert commit_of(ROOT) == (head.stdout.strip() or "main")
    assert commit_of(tmp_path) == "main"


def test_a_build_writes_it_where_a_page_can_offer_it(published):
    notebook = (published.srcdir / "code" / NAME).read_text()
    assert "https://example.org/us/guide" in code_in(notebook)[0]


@pytest.fixture
def guide(whole):
    """The house in miniature, as a repository with one commit."""
    git = ["git", "-C", str(whole), "-c", "user.name=a", "-c", "user.email=b"]
    for command in (
        ["init", "--quiet"],
        ["add", "--all"],
        ["commit", "--quiet", "--message=All"],
    ):
        subprocess.run([*git, *command], check=True)
    return whole


@pytest.fixture
def run(guide, tmp_path, monkeypatch):
    """Run the notebook in an empty folder, with other settings."""
    folder = tmp_path / "reader"
    folder.mkdir()

    def run(settings, repository=None):
        address = str(guide) if repository is None else repository
        first, *others = code_in(record_notebook(address, commit_of(guide)))
        program = "\n".join([first, settings, *others])
        done = subprocess.run(
            [sys.executable, "-c", program],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        return folder, done

    return run


def test_its_whole_way_on_a_machine_without_a_gpu(run):
    folder, done = run(ON_CPU)

    assert done.returncode == 0, done.stdout + done.stderr
    [packed] = folder.glob("here-torch-*.zip")
    assert str(packed) in done.stdout
    assert "passed" in done.stdout
    kept = folder / "proven-pytorch/evidence" / packed.stem
    assert {each.name for each in kept.iterdir()} == {
        "tests.xml.gz",
        "measurements.json",
    }
    assert json.loads((kept / "measurements.json").read_text())


def test_without_a_gpu_it_says_how_to_get_one(run):
    _, done = run("")

    assert "torch sees no CUDA device: on Colab, choose" in done.stderr


def test_without_an_address_it_asks_for_it(run):
    _, done = run(ON_CPU, repository="")

    assert "set REPOSITORY, above, to the address" in done.stderr
