"""The claims of docs/speed/cudnn_benchmark.md."""

import contextlib
import functools
import itertools
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import no_error
from extensions.evidence.versions import api_since
from extensions.programs.snippet import Snippet

CUDNN = torch.backends.cudnn
# Each of the four switches on and off.
WAYS = list(itertools.product([True, False], repeat=4))
UNNAMED = {
    "enabled": False,
    "benchmark": True,
    "deterministic": False,
    "allow_tf32": True,
}


@pytest.fixture(autouse=True)
def _no_misspelt_switch():
    """Take back what a misspelt line leaves for the whole process."""
    yield
    vars(CUDNN).pop("benchmrk", None)


LINES = ["", *(f"cudnn.{name} = not cudnn.{name}" for name in UNNAMED)]
PROGRAM = f"""
import torch
cudnn = torch.backends.cudnn
for line in {LINES}:
    exec(line)
    print(cudnn.enabled, cudnn.benchmark, cudnn.deterministic)
    exec(line)  # takes it back
"""


def without_recordings(snippet, cell):
    """Run the program to the end of a cell, without its recordings."""
    slow = {"recordings", "sizes"}
    return snippet.only(*snippet.cells().keys() - slow).after(cell)


@functools.cache
def switches_at_start():
    """Return the three switches of one fresh process, after each line."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        check=True,
        capture_output=True,
        text=True,
    )
    said = [line.split() for line in done.stdout.splitlines()]
    return dict(zip(LINES, said, strict=True))


def test_the_switch_is_off(snippet, line=""):
    assert switches_at_start()[line] == ["True", "False", "False"]
    snippet.after("switch")
    assert CUDNN.benchmark is True
    nn.Conv2d(1, 1, 1)(torch.ones(1, 1, 1, 1))
    assert CUDNN.benchmark is True


@pytest.mark.parametrize("name", ["enabled", "benchmark", "deterministic"])
def test_the_switch_is_off__ends_once_set(snippet, fails, name):
    """Once a line has set one of the three switches: they no longer all have
    their defaults.
    """
    line = f"cudnn.{name} = not cudnn.{name}"
    fails(test_the_switch_is_off, snippet, line)


def test_the_switch_is_off__but_not_switched_on(snippet, fails):
    """With `False`, this line leaves it off."""
    edited = snippet.edit(
        'torch.backends.cudnn.benchmark = True\nprint("now',
        'torch.backends.cudnn.benchmark = False\nprint("now',
    )
    fails(test_the_switch_is_off, edited)


def test_the_last_batch_is_a_size_too(snippet, samples=100):
    loader = snippet.after("last-batch").loader
    dropping = [len(batch) for batch in loader]
    options = {"batch_size": loader.batch_size, "drop_last": False}
    whole = [len(batch) for batch in DataLoader(loader.dataset, **options)]

    assert set(dropping) == {32}
    assert loader.drop_last
    assert sum(whole) == samples
    assert whole[:-1] == dropping
    assert 0 < whole[-1] < 32
    assert sum(dropping) == samples - whole[-1]


@pytest.mark.parametrize("samples", [33, 1000, 65])
def test_the_last_batch_is_a_size_too__also_with(snippet, samples):
    edited = snippet.edit("range(100)", f"range({samples})")
    test_the_last_batch_is_a_size_too(edited, samples)


@pytest.mark.parametrize("shuffle", [True, False], ids="shuffle={}".format)
def test_the_last_batch_is_a_size_too__also(snippet, shuffle):
    edited = snippet.edit(
        "batch_size=32,", f"batch_size=32, shuffle={shuffle},"
    )
    test_the_last_batch_is_a_size_too(edited)


def test_the_last_batch_is_a_size_too__but_not(snippet, fails):
    """Without `drop_last=True`, the batch of 4 stays."""
    edited = snippet.edit("drop_last=drop_last", "drop_last=False")
    fails(test_the_last_batch_is_a_size_too, edited)


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param(96, id="if the last batch is full"),
        pytest.param(20, id="with fewer samples than a batch"),
    ],
)
def test_the_last_batch_is_a_size_too__ends(snippet, fails, samples):
    """If the last batch is full, it is no second size; with fewer samples than
    a batch, `drop_last=True` leaves none.
    """
    edited = snippet.edit("range(100)", f"range({samples})")
    fails(test_the_last_batch_is_a_size_too, edited, samples)


DRAWN = "8_000, 56_001, (200,)"


def test_padding_makes_sizes_repeat(snippet, count=200):
    run = snippet.after("sizes")

    assert len(run.lengths) == len(run.padded) == count
    assert min(run.lengths) >= 8_000  # half a second
    assert max(run.lengths) <= 56_000
    assert len(set(run.lengths)) > 100
    assert len(set(run.padded)) <= 7
    assert all(length % 8_000 == 0 for length in run.padded)
    for name, sizes in (("as they are", run.lengths), ("padded", run.padded)):
        met = [len(set(sizes[: i + 1])) for i in range(count)]
        assert run.searches[name] == met
    for length, filled in zip(run.lengths, run.padded, strict=True):
        assert 0 <= filled - length < 8_000


@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 120)],
    ids=["seed 1-120 recordings"],
)
def test_padding_makes_sizes_repeat__also(snippet, count, seed):
    line = "torch.manual_seed(0)\nlengths"
    edited = snippet.edit(line, line.replace("0", str(seed)))
    edited = edited.edit(DRAWN, f"8_000, 56_001, ({count},)")
    test_padding_makes_sizes_repeat(edited, count)


def test_padding_makes_sizes_repeat__ends_for_longer_recordings(
    snippet, fails
):
    """For recordings longer than 3.5 seconds: up to 6 seconds, there are 11
    sizes here.
    """
    edited = snippet.edit(DRAWN, "8_000, 96_001, (200,)")
    fails(test_padding_makes_sizes_repeat, edited)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("recording, 8_000)", "recording, 1)"),
        ("recording, 8_000)", "recording, 4_000)"),
        ("8_000, 56_001, (200,)", "8_000, 8_051, (200,)"),
        (
            "-recording.shape[-1] % multiple",
            "multiple - recording.shape[-1] % multiple",
        ),
    ],
    ids=["to one", "to four thousand", "lengths alike", "always more"],
)
def test_padding_makes_sizes_repeat__but_not_with(snippet, fails, old, new):
    """Padded to multiples of 1 or 4,000, more sizes are left; the other edits
    take similar lengths, or pad too much.
    """
    if "multiple -" in new:  # a whole multiple more where nothing was missing
        text = "lengths = torch.randint(8_000, 56_001, (200,)).tolist()"
        snippet = snippet.edit(text, f"{text}\nlengths[0] = 8_000")
    fails(test_padding_makes_sizes_repeat, snippet.edit(old, new))


def test_a_coarse_multiple_adds_zeros(snippet):
    run = snippet.after("recordings")
    found = []
    for doublings in range(7):
        padded = [
            run.pad_to(each, 1_000 << doublings) for each in run.recordings
        ]
        zeros = sum(map(len, padded)) - sum(run.lengths)
        found.append((-len({*map(len, padded)}), zeros))

    assert len(found) == 7
    for (sizes, zeros), (coarser, more) in itertools.pairwise(found):
        assert coarser > sizes
        assert more > zeros


@pytest.mark.parametrize("seed", [1])
def test_a_coarse_multiple_adds_zeros__also_for_lengths_from(snippet, seed):
    line = "torch.manual_seed(0)\nlengths"
    edited = snippet.edit(line, line.replace("0", str(seed)))
    test_a_coarse_multiple_adds_zeros(edited)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("8_000, 56_001, (200,)", "63_900, 64_001, (200,)"),
        ("-recording.shape[-1] % multiple", "-len(recording) % 8_000"),
    ],
    ids=["of one length", "with one multiple"],
)
def test_a_coarse_multiple_adds_zeros__but_not(snippet, fails, old, new):
    """Recordings of nearly one length are all padded to the same size; and a
    fixed multiple ignores yours.
    """
    fails(test_a_coarse_multiple_adds_zeros, snippet.edit(old, new))


def test_pad_to_adds_zeros_behind(
    snippet, length=9_001, multiple=8_000, channels=(), dtype=torch.float32
):
    recording = (100 * torch.randn(*channels, length)).to(dtype)

    fewer = snippet.edit("(200,)).tolist()", "(2,)).tolist()")
    padded = fewer.after("recordings").pad_to(recording, multiple)

    assert padded.shape[:-1] == channels
    assert padded.shape[-1] % multiple == 0
    assert 0 <= padded.shape[-1] - length < multiple
    assert padded.dtype == dtype
    assert padded[..., :length].equal(recording)
    assert not padded[..., length:].any()


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.int16], ids=str
)
def test_pad_to_adds_zeros_behind__also_in(snippet, dtype):
    test_pad_to_adds_zeros_behind(snippet, dtype=dtype)


@pytest.mark.parametrize(
    "channels",
    [
        pytest.param((2,), id="stereo"),
        pytest.param((8, 1), id="batch"),
        pytest.param((0,), id="empty batch"),
    ],
)
def test_pad_to_adds_zeros_behind__also_of(snippet, channels):
    test_pad_to_adds_zeros_behind(snippet, channels=channels)


@pytest.mark.parametrize(
    ("length", "multiple"),
    [(1, 8), (7, 8), (8, 8), (9, 8), (5, 1), (0, 4)],
    ids=[
        "1 number",
        "7 numbers",
        "8 numbers",
        "9 numbers",
        "a multiple of 1",
        "no numbers",
    ],
)
def test_pad_to_adds_zeros_behind__also_for(snippet, length, multiple):
    test_pad_to_adds_zeros_behind(snippet, length, multiple)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "(0, -recording.shape[-1] % multiple)",
            "(-recording.shape[-1] % multiple, 0)",
        ),
        (
            "-recording.shape[-1] % multiple)",
            "recording.shape[-1] % multiple)",
        ),
        (
            "-recording.shape[-1] % multiple)",
            "-recording.shape[-1] % multiple), value=1",
        ),
        ("return F.pad(recording", "return F.pad(recording + 1"),
    ],
    ids=["before", "too few", "ones", "another recording"],
)
def test_pad_to_adds_zeros_behind__but_not(snippet, fails, old, new):
    """Here the zeros are in front; the other edits add too few, add ones, or
    change the recording.
    """
    fails(test_pad_to_adds_zeros_behind, snippet.edit(old, new))


def test_pad_to_adds_zeros_behind__but_not_to_the_multiple_after(
    snippet, fails
):
    """A recording that has such a length already gets a whole multiple of
    zeros.
    """
    edited = snippet.edit(
        "-recording.shape[-1] % multiple",
        "multiple - recording.shape[-1] % multiple",
    )
    fails(test_pad_to_adds_zeros_behind, edited, 8, 8)


@pytest.mark.cuda
def test_a_new_size_is_a_new_search(snippet):
    run = snippet.after("search-per-shape")

    assert run.new_size > run.same_size > 0


@pytest.mark.cuda
def test_a_new_size_is_a_new_search__but_not_switched_off(snippet, fails):
    """Here `benchmark` is off."""
    edited = snippet.edit(
        "benchmark=True):\n        kernels",
        "benchmark=False):\n        kernels",
    )
    fails(test_a_new_size_is_a_new_search, edited)


def named(snippet, old, new):
    """Return the program with another name in every place."""
    return Snippet(snippet.path, snippet.text.replace(old, new))


def test_a_misspelt_switch_is_taken(snippet):
    with no_error():
        run = without_recordings(snippet, "misspelt")

    assert run.still is False
    assert not hasattr(CUDNN, "benchmrk")


@pytest.mark.parametrize("name", ["Benchmark", "benchmarks", "bench_mark"])
def test_a_misspelt_switch_is_taken__also_as(snippet, name):
    test_a_misspelt_switch_is_taken(named(snippet, "benchmrk", name))


def test_a_misspelt_switch_is_taken__also_while_on(snippet):
    line = "torch.backends.cudnn.benchmark = False\ntorch"
    edited = snippet.edit(line, line.replace("False", "True"))

    assert without_recordings(edited, "misspelt").still is True


def test_a_misspelt_switch_is_taken__but_the_right_one_changes(snippet, fails):
    """Spelled correctly, the switch checks its value: 1 is not a `bool`, so it
    raises an error.
    """
    line = "torch.backends.cudnn.benchmrk = True"
    edited = snippet.edit(line, f"{line}\ntorch.backends.cudnn.benchmark = 1")
    fails(test_a_misspelt_switch_is_taken, edited)


def test_a_misspelt_switch_is_taken__but_not_without_a_module(snippet, fails):
    """With the module misspelled as well, an error is raised."""
    line = "torch.backends.cudnn.benchmrk = True"
    edited = snippet.edit(line, "torch.backends.cudn.benchmrk = True")
    fails(test_a_misspelt_switch_is_taken, edited)


def test_a_misspelt_module_is_not(snippet, name="cudn"):
    edited = named(snippet, "backends.cudn.", f"backends.{name}.")

    said = vars(without_recordings(edited, "misspelt")).get("said")

    assert said == f"module 'torch.backends' has no attribute '{name}'"


@pytest.mark.parametrize("name", ["CUDNN", "cuDNN", "cuddn"])
def test_a_misspelt_module_is_not__also_as(snippet, name):
    test_a_misspelt_module_is_not(snippet, name)


def test_a_misspelt_module_is_not__but_the_right_one_is(snippet, fails):
    """Spelled correctly, it raises nothing."""
    edited = named(snippet, "backends.cudn.", "backends.cudnn.")
    fails(test_a_misspelt_module_is_not, edited)


def test_flags_set_what_you_do_not_name(snippet):
    run = without_recordings(snippet, "flags-wrong")

    assert run.unnamed == UNNAMED
    before = run.switches()  # whatever was set before
    assert (before["deterministic"], before["allow_tf32"]) == (True, False)


@pytest.mark.parametrize(
    "before", WAYS, ids=[f"combination {n}" for n in range(1, 17)]
)
def test_flags_set_what_you_do_not_name__also_after_any_values_of_the_switches(
    snippet, before
):
    run = without_recordings(snippet, "switches")

    outer = CUDNN.flags(**dict(zip(UNNAMED, before, strict=True)))
    with outer, CUDNN.flags(benchmark=True):
        assert run.switches() == UNNAMED


@pytest.mark.parametrize(
    "option", ["enabled=True", "deterministic=True", "allow_tf32=False"]
)
def test_flags_set_what_you_do_not_name__but_not_if_named(
    snippet, fails, option
):
    """A switch that you name has the value that you give it."""
    edited = snippet.edit(
        "flags(benchmark=True)", f"flags(benchmark=True, {option})"
    )
    fails(test_flags_set_what_you_do_not_name, edited)


NAMED = "enabled=True, benchmark=True, deterministic=True, allow_tf32=False"


def test_flags_are_put_back(snippet, values=(True, True, True, False)):
    values = dict(zip(UNNAMED, values, strict=True))
    words = ", ".join(f"{name}={value}" for name, value in values.items())
    if words != NAMED:
        snippet = snippet.edit(NAMED, words)
    before = without_recordings(snippet, "flags-wrong").switches()

    run = without_recordings(snippet, "flags-right")

    assert run.named == values
    assert run.after == before
    with contextlib.suppress(KeyError), CUDNN.flags(**values):
        raise KeyError
    assert run.switches() == before


@pytest.mark.parametrize(
    "values", WAYS, ids=[f"combination {n}" for n in range(1, 17)]
)
def test_flags_are_put_back__also_for_any_values_of_the_switches(
    snippet, values
):
    test_flags_are_put_back(snippet, values)


@pytest.mark.parametrize("name", UNNAMED)
def test_flags_are_put_back__but_not_what_is_assigned(snippet, fails, name):
    """Assigned once more after the block, a switch is no longer as before."""
    line = f"torch.backends.cudnn.{name} = not torch.backends.cudnn.{name}\n"
    edited = snippet.edit("after = switches()", f"{line}after = switches()")
    fails(test_flags_are_put_back, edited)


@pytest.mark.parametrize("name", UNNAMED)
def test_flags_are_put_back__but_not_if_left_out(snippet, fails, name):
    """A switch that you leave out has the value that `flags` gives it."""
    words = [each for each in NAMED.split(", ") if name not in each]
    fails(test_flags_are_put_back, snippet.edit(NAMED, ", ".join(words)))


NEW = api_since("2.9", "fp32_precision")


@contextlib.contextmanager
def mixed(name="conv", word="ieee"):
    """Forbid TF32 by the new name, and take it back at the end."""
    CUDNN.allow_tf32 = True
    getattr(CUDNN, name).fp32_precision = word
    try:
        yield
    finally:
        CUDNN.allow_tf32 = True


OPTIONS = (
    {"benchmark": True},
    {"enabled": True, "benchmark": True},
    dict.fromkeys(UNNAMED, True),
    {"enabled": True, "allow_tf32": False},
)


@NEW
def test_flags_refuse_the_new_name(snippet, word="ieee", name="conv"):
    program = snippet.only("imports", "new-name")
    refused = vars(program.after("new-name")).get("refused", "nothing")
    start = "PyTorch is checking whether allow_tf32 is enabled for cuDNN"
    assert refused.startswith(start)
    for options in OPTIONS:
        entered = False
        with (
            mixed(name, word),
            pytest.raises(RuntimeError) as met,
            CUDNN.flags(**options),
        ):
            entered = True
        assert str(met.value) == refused
        assert not entered


def test_flags_refuse_the_new_name__also_for_recurrent_layers(snippet):
    test_flags_refuse_the_new_name(snippet, name="rnn")


def test_flags_refuse_the_new_name__but_not_if_it_allows_tf32(snippet, fails):
    """If the new name allows TF32 as well, nothing is raised."""
    edited = snippet.edit('fp32_precision = "ieee"', 'fp32_precision = "tf32"')
    fails(test_flags_refuse_the_new_name, edited)


def test_flags_refuse_the_new_name__but_not_if_the_old_one_forbids_it(
    snippet, fails
):
    """If the old name forbids TF32 as well, nothing is raised."""
    edited = snippet.edit(
        "allow_tf32 = True  # the default", "allow_tf32 = False"
    )
    fails(test_flags_refuse_the_new_name, edited)


@NEW
def test_assigning_still_works(snippet, deterministic=True):
    before = CUDNN.benchmark, CUDNN.deterministic
    with mixed(), no_error():
        CUDNN.benchmark = True
        CUDNN.deterministic = True
        assert (CUDNN.benchmark, CUDNN.deterministic) == (True, deterministic)
        assert CUDNN.conv.fp32_precision == "ieee"
        CUDNN.benchmark, CUDNN.deterministic = before
    assert (CUDNN.benchmark, CUDNN.deterministic) == before


def test_assigning_still_works__but_not_as_another_value(snippet, fails):
    """Assigning works, so `deterministic` is then `True`, not `False`."""
    fails(test_assigning_still_works, snippet, False)


@NEW
def test_the_old_name_ends_the_mix(snippet, allow=(True, False)):
    """No cell decides it: the switches themselves are asked."""
    for allowed in allow:
        with mixed():
            if allowed is not None:
                CUDNN.allow_tf32 = allowed
            with no_error(), CUDNN.flags(enabled=True, benchmark=True):
                assert CUDNN.benchmark
            assert CUDNN.allow_tf32 is allowed


def test_the_old_name_ends_the_mix__ends_if_left_out(snippet, fails):
    """If you do not assign it: `flags` raises the error."""
    fails(test_the_old_name_ends_the_mix, snippet, [None])


def test_benchmark_and_deterministic_are_two(snippet):
    cells = ("imports", "switches", "deterministic")
    run = snippet.only(*cells).after("deterministic")

    found = [
        (each["benchmark"], each["deterministic"])
        for each in (run.one, run.both, run.other)
    ]
    assert found == [(True, False), (True, True), (False, True)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("benchmark = True\none", "deterministic = True\none"),
        (
            "deterministic = True\nboth",
            "deterministic = True\n"
            "torch.backends.cudnn.benchmark = False\nboth",
        ),
        (
            "benchmark = False\nother",
            "benchmark = False\n"
            "torch.backends.cudnn.deterministic = False\nother",
        ),
    ],
    ids=["instead", "off by deterministic", "off by benchmark"],
)
def test_benchmark_and_deterministic_are_two__but_not(
    snippet, fails, old, new
):
    """Here `deterministic` is set in place of `benchmark`; the other edits
    switch one of them off by hand.
    """
    fails(test_benchmark_and_deterministic_are_two, snippet.edit(old, new))


def test_the_cpu_does_not_care(snippet, kind=nn.Conv2d, dtype=torch.float32):
    run = snippet.only("imports", "on-the-cpu").after("on-the-cpu")
    size = [2, 3, 9, 9, 9][: 2 + int(kind.__name__[-2])]
    layer, images = kind(3, 4, 3).to(dtype), torch.randn(size, dtype=dtype)

    assert run.on.equal(run.off)
    results = []
    for benchmark in (False, True):
        layer.zero_grad()
        with CUDNN.flags(enabled=True, benchmark=benchmark):
            output = layer(images)
            output.square().sum().backward()
        results.append((output, layer.weight.grad, layer.bias.grad))
    assert all(a.equal(b) for a, b in zip(*results, strict=True))


@pytest.mark.parametrize(
    "kind", [nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.ConvTranspose2d]
)
@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str
)
def test_the_cpu_does_not_care__also_for(snippet, kind, dtype):
    test_the_cpu_does_not_care(snippet, kind, dtype)


def test_the_cpu_does_not_care__but_other_images_differ(snippet, fails):
    """Other images have other results, whatever the switch."""
    edited = snippet.edit(
        "    on = layer(images)", "    on = layer(2 * images)"
    )
    fails(test_the_cpu_does_not_care, edited)
