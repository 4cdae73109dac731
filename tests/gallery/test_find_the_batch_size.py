"""The claims of gallery/find_the_batch_size.py."""

import gc
import math
import os
import subprocess
import sys
import weakref
from unittest.mock import patch

import pytest

from extensions.files.failures import edits, no_error

pytestmark = pytest.mark.usefixtures("frozen")

DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'


def on_the_stand_in(snippet):
    """Return the program as it is where there is no CUDA device."""
    return snippet.edit(DEVICE, 'device = "cpu"')


def test_the_best_fits_and_one_more_does_not(snippet):
    run = on_the_stand_in(snippet).after("search")

    assert 1 < run.best < run.MOST
    with run.room():
        model, _, step = run.build(run.device)
        model.train()
        with no_error():
            for _ in range(4):
                step(run.best)
    assert not run.fits(run.best + 1)
    assert run.tries[run.best]
    assert not run.tries[run.best + 1]


@edits(
    ("STAND_IN = 8_000_000", "STAND_IN = 3_000_000"),
    ("nn.BatchNorm1d(256), ", ""),
    ("torch.optim.AdamW", "torch.optim.SGD"),
)
def test_the_best_fits_and_one_more_does_not__also_with(snippet, old, new):
    test_the_best_fits_and_one_more_does_not(snippet.edit(old, new))


@edits(
    ("all fits", "MOST = 2, 4096", "MOST = 2, 64"),
    ("one step", "for _ in range(2):", "for _ in range(1):"),
    ("not the largest", "return max((s for", "return min((s for"),
    ("stops early", "while high - low > 1:", "while high - low > 9:"),
)
def test_the_best_fits_and_one_more_does_not__but_not(
    snippet, fails, old, new
):
    edited = snippet.edit(old, new)
    fails(test_the_best_fits_and_one_more_does_not, edited)


def test_each_size_is_tried_once(snippet):
    run = (
        on_the_stand_in(snippet)
        .edit("MOST = 2, 4096", "MOST = 2, 8")
        .after("search")
    )
    for limit in range(2, 600):
        asked = []

        def counted(size, asked=asked, limit=limit):
            asked.append(size)
            return size <= limit

        with patch.dict(run.largest_batch.__globals__, fits=counted):
            assert run.largest_batch(2, 600)[0] == limit
        assert len(asked) == len(set(asked))
        assert len(asked) <= 2 * math.log2(limit) + 1


def test_each_size_is_tried_once__but_not_one_by_one(snippet, fails):
    edited = snippet.edit("min(2 * size, most)", "size + 1")
    fails(test_each_size_is_tried_once, edited)


def said(snippet, capsys, stand_in, most=64, least=2):
    """Return what the program concludes."""
    edited = on_the_stand_in(snippet)
    edited = edited.edit("STAND_IN = 8_000_000", f"STAND_IN = {stand_in}")
    edited = edited.edit("MOST = 2, 4096", f"MOST = {least}, {most}")
    with no_error():
        edited.after("conclusion")
    return capsys.readouterr().out


def test_the_conclusion_may_be_not_here(snippet, capsys):
    everything = "Not here: everything up to 64 samples fits.\n"
    assert said(snippet, capsys, 10**12) == everything
    nothing = "Not here: not even 2 samples fit.\n"
    assert said(snippet, capsys, 200_000) == nothing
    assert "Not here" not in said(snippet, capsys, 700_000, 4096)
    none = "Not here: there is no batch of {} to {} samples.\n"
    assert said(snippet, capsys, 10**12, 1) == none.format(2, 1)
    assert said(snippet, capsys, 10**12, 9, 0) == none.format(0, 9)


@edits(
    ("silent about all", "if best == most:", "if False:"),
    ("silent about none", "if best == 0:", "if False:"),
    ("always", "    if best == 0:", "    if True:"),
    ("silent about no sizes", "    if not tries:", "    if False:"),
)
def test_the_conclusion_may_be_not_here__but_not(
    snippet, capsys, fails, old, new
):
    edited = snippet.edit(old, new)
    fails(test_the_conclusion_may_be_not_here, edited, capsys)


YOURS = """
import torch
from beside import LIMIT

def build(device):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(size):
        if size > LIMIT:
            raise torch.OutOfMemoryError
        model(torch.ones(size, 2)).sum().backward()
        optimizer.step()

    return model, optimizer, step
"""


def written(folder):
    """Write a model of a reader, and what it imports; return its path."""
    (folder / "beside.py").write_text("LIMIT = 11\n", encoding="utf-8")
    path = folder / "my_model.py"
    path.write_text(YOURS, encoding="utf-8")
    return path


def test_a_model_of_yours_is_searched(snippet, tmp_path, monkeypatch):
    path = written(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    edited = snippet.edit('MODEL = ""', f"MODEL = {str(path)!r}")
    try:
        run = edited.after("search")
    except ModuleNotFoundError:
        pytest.fail("what lies beside it is not found")
    finally:
        sys.modules.pop("beside", None)

    assert run.best == 11


def run_script(snippet, folder, *options):
    """Run the recipe as a script, without its picture."""
    path = folder / "find_the_batch_size.py"
    text = snippet.text.partition("# %% picture")[0]
    path.write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, path, *options],
        capture_output=True,
        check=True,
        cwd=folder,
        encoding="utf-8",
        env=os.environ | {"COLUMNS": "100", "OMP_NUM_THREADS": "1"},
    ).stdout


def test_a_model_of_yours_is_searched__also_as_an_option(snippet, tmp_path):
    (tmp_path / "theirs").mkdir()
    path = written(tmp_path / "theirs")
    options = ["--model", path, "--most", "20", "--least", "3"]
    found = run_script(snippet, tmp_path, *options)
    assert found == "11 samples fit, 12 do not (6 tries).\n"


def test_a_model_of_yours_is_searched__also_said_by_help(snippet, tmp_path):
    found = run_script(snippet, tmp_path, "--help")
    for name in ("model", "least", "most", "share", "stand-in"):
        assert f"--{name} " in found


@edits(
    ("the example", "if MODEL:", "if False:"),
    ("without its folder", "    sys.path.insert(0, ", "    print("),
)
def test_a_model_of_yours_is_searched__but_not(
    snippet, tmp_path, monkeypatch, fails, old, new
):
    edited = snippet.edit(old, new)
    fails(test_a_model_of_yours_is_searched, edited, tmp_path, monkeypatch)


def test_each_try_begins_anew(snippet):
    run = (
        on_the_stand_in(snippet)
        .edit("MOST = 2, 4096", "MOST = 2, 4")
        .after("search")
    )
    seen, left, models = [], [], weakref.WeakSet()
    build = run.build

    def noted(device):
        left.append(len(models))
        model, optimizer, step = build(device)
        model.eval()
        model.me = [model]
        models.add(model)
        steps = []

        def noted_step(size):
            if not steps:
                state = len(optimizer.state)
                seen.append((state, model.training))
            steps.append(optimizer)
            step(size)

        return model, optimizer, noted_step

    gc.disable()  # so that nothing is collected by chance
    try:
        with patch.dict(run.fits.__globals__, build=noted):
            _, tries = run.largest_batch(2, 8)
    finally:
        gc.enable()
    assert left == [0, 0, 0]
    assert len(tries) == 3
    assert seen == [(0, True)] * 3


@edits(
    (
        "one model for all",
        "model, _, step = build(device)",
        "if not hasattr(fits, 'kept'):\n"
        "            fits.kept = build(device)\n"
        "        model, _, step = fits.kept",
    ),
    ("evaluating", "        model.train()\n", ""),
    ("uncollected", "    gc.collect()\n", ""),
)
def test_each_try_begins_anew__but_not(snippet, fails, old, new):
    fails(test_each_try_begins_anew, snippet.edit(old, new))
