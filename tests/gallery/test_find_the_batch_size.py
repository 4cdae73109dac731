"""The claims of gallery/find_the_batch_size.py."""

import gc
import math
import weakref
from unittest.mock import patch

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.recipes import (
    BROKEN,
    as_script,
    check_arguments,
    check_named,
    check_refused,
    given,
    no_line,
    written,
)

pytest.importorskip("tqdm", reason="tqdm is not installed")
pytestmark = pytest.mark.usefixtures("frozen", "nothing_stays")

ARGUMENTS = {
    "MODEL": (["--model", "my_model.py"], "my_model.py"),
    "LEAST": (["--least", "3"], 3),
    "MOST": (["--most", "9"], 9),
    "SHARE": (["--share", "0.5"], 0.5),
    "STAND_IN": (["--stand-in", "7"], 7),
}

DEVICE = 'device = "cuda" if torch.cuda.is_available() else "cpu"'


def on_the_stand_in(snippet):
    """Return the program as it is where there is no CUDA device."""
    return snippet.edit(DEVICE, 'device = "cpu"')


# -- Settings ----------------------------------------------------------------


def test_each_argument_sets_its_constant(snippet):
    check_arguments(snippet, ARGUMENTS)


@edits(
    ("default=LEAST", "default=5"),
    ("LEAST, MOST, SHARE = options", "MOST, LEAST, SHARE = options"),
    ("MODEL, STAND_IN = options", "STAND_IN, MODEL = options"),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `default=5`, `LEAST` changes without its argument; the other edits
    swap values, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def test_a_number_out_of_bounds_is_refused(snippet):
    check_refused(
        snippet,
        [
            *(["--least", number] for number in ("0", "-1", "4097")),
            *(["--most", number] for number in ("1", "-9")),
            *(["--share", number] for number in ("0", "1.1", "nan")),
            ["--stand-in", "0"],
        ],
    )


@edits(
    ("if not 1 <= options.least", "if not 0 <= options.least"),
    ("options.least <= options.most:", "options.least:"),
    ("options.share <= 1 or", "options.share or"),
    ("options.stand_in < 1", "options.stand_in < 0"),
    ('"--least is at least 1,', '"least is at least 1,'),
)
def test_a_number_out_of_bounds_is_refused__but_not_with(
    snippet, old, new, fails
):
    """With `0 <=`, a batch of 0 is accepted; other edits accept other bad
    numbers, or do not name the argument.
    """
    fails(test_a_number_out_of_bounds_is_refused, snippet.edit(old, new))


# -- The search --------------------------------------------------------------


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
    ("a smaller device", "STAND_IN = 8_000_000", "STAND_IN = 3_000_000"),
    ("no BatchNorm", "nn.BatchNorm1d(256), ", ""),
    ("SGD", "torch.optim.AdamW", "torch.optim.SGD"),
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
    """Up to 64, everything fits, and one more is never tried; the other edits
    stop early, or return a smaller size.
    """
    edited = snippet.edit(old, new)
    fails(test_the_best_fits_and_one_more_does_not, edited)


def test_each_size_is_tried_once(snippet):
    run = (
        on_the_stand_in(snippet)
        .edit("MOST = 2, 4096", "MOST = 2, 8")
        .after("search")
    )
    for least, limit in [(1, each) for each in range(1, 600)] + [
        (each, 99) for each in (2, 3, 98, 99)
    ]:
        asked = []

        def counted(size, asked=asked, limit=limit):
            asked.append(size)
            return size <= limit

        with patch.dict(run.largest_batch.__globals__, fits=counted):
            assert run.largest_batch(least, 600)[0] == limit
        assert len(asked) == len(set(asked))
        assert len(asked) <= 2 * math.log2(limit) + 2

    with patch.dict(run.largest_batch.__globals__, fits=lambda size: True):
        for least, most in ((1, 1), (3, 4), (3, 9)):
            assert run.largest_batch(least, most)[0] == most


def test_each_size_is_tried_once__but_not_one_by_one(snippet, fails):
    """With `size + 1`, the search goes up one sample at a time, and needs too
    many tries.
    """
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
    """With `if False:`, it says that 65 samples do not fit, without a try; the
    other edits misreport other cases.
    """
    edited = snippet.edit(old, new)
    fails(test_the_conclusion_may_be_not_here, edited, capsys)


YOURS = """
import torch
from my_limit import LIMIT

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


def yours(folder):
    """Write a model of a reader, and what it imports; return its path."""
    written(folder, "LIMIT = 11\n", "my_limit.py")
    return written(folder, YOURS)


def test_a_model_of_yours_is_searched(snippet, tmp_path):
    with no_line():
        run = given(snippet, MODEL=yours(tmp_path)).after("search")
    assert run.best == 11


@pytest.mark.parametrize(
    "said",
    ["CUDA error: CUBLAS_STATUS_ALLOC_FAILED", "CUDA error: out of memory"],
    ids=["cuBLAS", "CUDA"],
)
def test_a_model_of_yours_is_searched__also_if_a_library_is_full(
    snippet, tmp_path, said
):
    raised = f'raise RuntimeError("{said}")'
    text = YOURS.replace("raise torch.OutOfMemoryError", raised)
    written(tmp_path, "LIMIT = 11\n", "my_limit.py")
    path = written(tmp_path, text)
    with no_line():
        run = given(snippet, MODEL=path).after("search")
    assert run.best == 11
    broken = written(tmp_path, text.replace(said, "wrong shapes"))
    with pytest.raises(RuntimeError, match="wrong shapes"):
        given(snippet, MODEL=broken).after("search")


def test_a_model_of_yours_is_searched__also_as_an_option(
    snippet, tmp_path, capsys
):
    words = ["--model", yours(tmp_path), "--most", "20", "--least", "3"]
    with patch("sys.argv", ["recipe.py", *words]):
        as_script(snippet).after("conclusion")
    found = capsys.readouterr().out
    assert found == "11 samples fit, 12 do not (6 tries).\n"


@edits(
    ("the example", "if MODEL:", "if False:"),
    ("without its folder", "    sys.path.insert(0, ", "    print("),
)
def test_a_model_of_yours_is_searched__but_not(
    snippet, tmp_path, fails, old, new
):
    """With `if False:`, the example is searched instead; without its folder in
    `sys.path`, your file cannot import its neighbor.
    """
    fails(test_a_model_of_yours_is_searched, snippet.edit(old, new), tmp_path)


def test_a_file_that_fails_is_named(snippet, tmp_path):
    def start(path):
        given(snippet, MODEL=path).after("yours")

    read = "raise RuntimeError('no\\ndisk\\n')"
    check_named(start, tmp_path, BROKEN | {"my_error.py": read})


@edits(
    ('(f"{path}: {type', '(f"{type'),
    ('.rpartition("\\n")[2]', ""),
    ("sys.tracebacklimit = 0", "sys.tracebacklimit = 9"),
)
def test_a_file_that_fails_is_named__but_not_with(
    snippet, tmp_path, old, new, fails
):
    """Without `{path}`, the line does not name the file; the other edits show
    more lines.
    """
    fails(test_a_file_that_fails_is_named, snippet.edit(old, new), tmp_path)


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
            _, tries = run.largest_batch(2, 64)
    finally:
        gc.enable()
    assert left == [0] * 6
    assert len(tries) == 6
    assert seen == [(0, True)] * 6


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
    """With `fits.kept`, all tries share one model; the other edits leave it in
    evaluation mode, or keep old models in memory.
    """
    fails(test_each_try_begins_anew, snippet.edit(old, new))


def test_the_stand_in_counts_each_tensor(snippet):
    run = snippet.only("settings", "options", "build", "stand-in")
    run = run.after("stand-in")
    with no_error(), run.StandIn(1000) as device:
        first = torch.ones(100)
        views = first[:10], first.view(10, 10).T, first.add_(1)
        assert device.held == 400
        second = torch.ones(150)
        assert device.held == 1000
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(1)
        del first
        assert device.held == 1000
        del views
        assert device.held == 600
        halves = torch.ones(200, dtype=torch.bfloat16).split(50)
        del second
        assert device.held == 400
        gaps = torch.empty_strided((2,), (100,))
        assert device.held == 400 + 101 * 4
        del gaps
        assert device.held == 400
    assert len(halves) == 4


def test_the_stand_in_counts_each_tensor__also_in_a_graph(snippet):
    run = snippet.only("settings", "options", "build", "stand-in")
    run = run.after("stand-in")
    with run.StandIn(10_000) as device:
        weight = torch.ones(100, requires_grad=True)
        loss = (weight * 2).exp().sum()
        assert device.held == 3 * 400 - 400 + 4
        loss.backward()
        assert device.held == 2 * 400 + 4
        pair = torch.zeros(10).sort()
        assert device.held == 2 * 400 + 4 + 10 * (4 + 8)
        del pair
        assert device.held == 2 * 400 + 4


@edits(
    ("if storage not in self.known:", "if True:"),
    ("self.held + more > self.size", "self.held + more >= self.size"),
    ("self.hold, -storage.nbytes())", "self.hold, 0)"),
    ("self.hold(storage.nbytes())", "self.hold(each.numel())"),
    ('raise torch.OutOfMemoryError("', 'print("'),
)
def test_the_stand_in_counts_each_tensor__but_not_with(
    snippet, old, new, fails
):
    """With `if True:`, a view counts as a new tensor; the other edits miscount
    bytes, never free them, or raise wrongly.
    """
    fails(test_the_stand_in_counts_each_tensor, snippet.edit(old, new))
