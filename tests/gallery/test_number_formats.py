"""The claims of gallery/number_formats.py."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.recipes import as_script, constants, given, told


class Number(float):
    """A number whose repr is a program, also that of one not finite."""

    def __repr__(self):
        return f"float({str(float(self))!r})"


FOUR = ("float32", "float16", "bfloat16", "float8_e4m3fn")
ARGUMENTS = {
    "NUMBERS": (["--numbers", "3", "1e-7"], [3.0, 1e-7]),
    "OFF_BY": (["--off-by", "0.5"], 0.5),
    "FORMATS": (["--formats", "float64"], ["float64"]),
}


def test_each_argument_sets_its_constant(snippet):
    script, expected = as_script(snippet), constants(snippet, ARGUMENTS)
    assert told(script, [], ARGUMENTS) == expected
    for name, (words, value) in ARGUMENTS.items():
        changed = expected | {name: value}
        assert told(script, words, ARGUMENTS) == changed
        assert told(snippet, words, ARGUMENTS) == expected


@edits(
    ("NUMBERS, OFF_BY = options", "OFF_BY, NUMBERS = options"),
    ("default=OFF_BY", "default=0.5"),
    ('"--formats", nargs="+"', '"--formats"'),
    ('if "__file__" in globals():', "if True:"),
)
def test_each_argument_sets_its_constant__but_not_with(
    snippet, old, new, fails
):
    """With `OFF_BY, NUMBERS` swapped, each gets the other's value; the other
    edits change a default, or read arguments in a notebook.
    """
    fails(test_each_argument_sets_its_constant, snippet.edit(old, new))


def refusal(snippet, cell, **constants):
    """Return with which line the program ends at such settings, or None."""
    try:
        with no_error():
            given(snippet, **constants).after(cell)
    except SystemExit as stop:
        return stop.code
    return None


def test_a_senseless_setting_is_refused(snippet):
    line = "numbers are finite, and off-by is from 0 to below 1"
    for value in (-1.0, -1e-9, 1.0, 2.0, torch.inf, torch.nan):
        assert refusal(snippet, "options", OFF_BY=Number(value)) == line
    for value in (torch.inf, -torch.inf, torch.nan):
        numbers = [1.0, Number(value)]
        assert refusal(snippet, "options", NUMBERS=numbers) == line
    for value in (0, 0.0, 0.999):
        assert refusal(snippet, "options", OFF_BY=value) is None
    assert refusal(snippet, "options", NUMBERS=[0.0, -1e308]) is None


@edits(
    ("no numbers", "not all(map(math.isfinite, NUMBERS)) or ", ""),
    ("one number", "math.isfinite, NUMBERS", "math.isfinite, NUMBERS[:1]"),
    ("below 0", "not 0 <= OFF_BY < 1", "not OFF_BY < 1"),
    ("not from 1 on", "0 <= OFF_BY < 1", "0 <= OFF_BY <= 1"),
    ("also nothing lost", "0 <= OFF_BY < 1", "0 < OFF_BY < 1"),
)
def test_a_senseless_setting_is_refused__but_not_with(
    snippet, fails, old, new
):
    """Without this check, infinite numbers are accepted; the other edits check
    one number only, or move a bound of `OFF_BY`.
    """
    fails(test_a_senseless_setting_is_refused, snippet.edit(old, new))


def test_an_unknown_format_is_refused(snippet):
    names = ("foo", "torch.float32", "load", "Tensor", "complex64", "int32")
    for name in (*names, "float4_e2m1fn_x2", "float8_e8m0fnu", ""):
        said = refusal(snippet, "limits", FORMATS=["float32", name])
        assert said
        assert "\n" not in said
        first, known = said.split("; there are: ")
        assert first == f"no format {name!r}"
        for each in known.split(", "):
            assert refusal(snippet, "limits", FORMATS=[each]) is None
        assert {*FOUR, "float64", "float8_e5m2"} <= {*known.split(", ")}


@edits(
    ("the first", "for name in FORMATS:", "for name in FORMATS[:1]:"),
    ("those given", "', '.join(known)", "', '.join(FORMATS)"),
    ("of all types", "dtype.is_floating_point", "dtype"),
    ("in two lines", "; there are:", ";\\nthere are:"),
)
def test_an_unknown_format_is_refused__but_not(snippet, fails, old, new):
    """With `[:1]`, only the first name is checked; the other edits list the
    wrong formats, or use two lines.
    """
    fails(test_an_unknown_format_is_refused, snippet.edit(old, new))


def test_float16_ends_at_65504(snippet):
    run = snippet.after("limits")
    largest = torch.tensor(65_504.0, dtype=run.formats["float16"])
    above = torch.nextafter(largest, torch.tensor(torch.inf).to(largest))

    assert run.limits["float16"].max == largest.item() == 65_504
    assert above.isinf()
    for number in (65_520.0, 70_000.0, 3e38, float("inf")):
        assert torch.tensor(number).to(run.formats["float16"]).isinf()


def test_float16_ends_at_65504__but_bfloat16_does_not(snippet, fails):
    """`bfloat16` goes far beyond 65,504."""
    edited = snippet.edit(
        "known[name] for name in FORMATS",
        "torch.bfloat16 for name in FORMATS",
    )
    fails(test_float16_ends_at_65504, edited)


def test_bfloat16_reaches_as_far_as_float32(snippet):
    limits = snippet.after("limits").limits

    ratio = limits["bfloat16"].max / limits["float32"].max
    assert 0.99 < ratio < 1


@pytest.mark.parametrize("other", ["float16", "float32", "float8_e4m3fn"])
def test_bfloat16_reaches_as_far_as_float32__but_not(snippet, fails, other):
    """`float16` and `float8_e4m3fn` end far below `float32`, and `float32`
    itself not below at all.
    """
    edited = snippet.edit(
        "torch.finfo(dtype) for name, dtype in formats.items()",
        f"torch.finfo(torch.{other} if name == 'bfloat16' else dtype)"
        " for name, dtype in formats.items()",
    )
    fails(test_bfloat16_reaches_as_far_as_float32, edited)


def every(dtype):
    """Return positive numbers of a format in order: all, or many in a row."""
    if dtype.itemsize == 1:
        bits = torch.arange(1, 127, dtype=torch.uint8)
    elif dtype.itemsize == 2:
        bits = torch.arange(1, 2**15 - 1, dtype=torch.int16)
    else:
        starts = torch.arange(1, 255 << 23, 999_983)
        bits = torch.cat([starts, starts + 1]).int().sort().values
    numbers = bits.view(dtype).double()
    return numbers[numbers.isfinite()]


def test_one_more_in_the_bits_is_the_next_number(snippet):
    run = snippet.only("settings", "limits", "spacing").after("spacing")

    assert tuple(run.formats) == FOUR
    wide = run.spacing(torch.ones(1).double(), torch.float64)
    assert wide.item() == 2**-52
    for name, dtype in run.formats.items():
        assert dtype == getattr(torch, name)
        numbers = every(dtype)
        steps = run.spacing(numbers, dtype)
        if dtype != torch.float32:  # all numbers: each leads to the next
            assert numbers[-1] == torch.finfo(dtype).max
            assert (numbers.diff() > 0).all()
            assert torch.equal(steps[:-1], numbers.diff())
            assert steps[-1].isnan()
        else:
            stored = numbers.float()
            after = torch.nextafter(stored, torch.tensor(torch.inf))
            assert torch.equal(steps, (after.double() - numbers))
        ends = torch.tensor([0.0, -1.0, torch.inf, torch.nan]).double()
        found = run.spacing(ends, dtype).tolist()
        assert [each for each in found if not math.isnan(each)] == []


@edits(
    (
        "two more",
        ".view(sizes[dtype.itemsize]) + 1)",
        ".view(sizes[dtype.itemsize]) + 2)",
    ),
    (
        "one less",
        ".view(sizes[dtype.itemsize]) + 1)",
        ".view(sizes[dtype.itemsize]) - 1)",
    ),
    (
        "the number",
        "here.view(sizes[dtype.itemsize]) + 1",
        "here.to(sizes[dtype.itemsize]) + 1",
    ),
    ("negative", " & (here > 0)", ""),
)
def test_one_more_in_the_bits_is_the_next_number__but_not(
    snippet, fails, old, new
):
    """With 2 added, a number is skipped; the other edits step back, do not
    read the bits, or allow negative numbers.
    """
    fails(test_one_more_in_the_bits_is_the_next_number, snippet.edit(old, new))


def test_near_one_bfloat16_has_steps_of_a_128th(snippet):
    run = snippet.after("near-one")
    expected = {"bfloat16": 128, "float16": 1024, "float32": 8_388_608}

    for name, parts in expected.items():
        assert run.at_one[name] == 1 / parts
    for name in FOUR:
        assert run.at_one[name] == torch.finfo(getattr(torch, name)).eps


def test_near_one_bfloat16_has_steps_of_a_128th__but_not_near_two(
    snippet, fails
):
    """From 2 on, the steps are twice as large."""
    edited = snippet.edit("exponents == 0", "exponents == 1")
    fails(test_near_one_bfloat16_has_steps_of_a_128th, edited)


def relative(snippet):
    """Return the relative steps by format, and the powers of two."""
    run = snippet.after("spacing")
    assert torch.equal(run.powers, 2.0**run.exponents)
    return run.relative, run.exponents.tolist()


def test_the_relative_step_is_the_same_everywhere(snippet):
    steps, exponents = relative(snippet)

    assert exponents == list(range(-30, 31))
    assert set(steps["float32"].tolist()) == {2**-23}
    assert set(steps["bfloat16"].tolist()) == {2**-7}


def test_the_relative_step_is_the_same_everywhere__but_not_the_step(
    snippet, fails
):
    """The step itself, not divided by the number, grows with it."""
    edited = snippet.edit("spacings[name] / powers", "spacings[name]")
    fails(test_the_relative_step_is_the_same_everywhere, edited)


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_the_relative_step_is_the_same_everywhere__but_not_in_float16(
    snippet, fails, name
):
    """`float16` has a larger relative step for tiny numbers."""
    edited = snippet.edit(
        "spacing(powers, dtype) for",
        f"spacing(powers, torch.float16 if name == {name!r} else dtype) for",
    )
    fails(test_the_relative_step_is_the_same_everywhere, edited)


def test_small_numbers_of_float16_have_few_digits(snippet):
    steps, exponents = relative(snippet)
    found = dict(zip(exponents, steps["float16"].tolist(), strict=True))

    assert {found[each] for each in range(-14, 16)} == {2**-10}
    for each in range(-24, -14):
        assert found[each] * 2**each == 2**-24
        assert found[each] == 2 * found[each + 1]
    tiny = torch.tensor(2.0**-24, dtype=torch.float16)
    assert tiny.view(torch.int16) == 1


def test_small_numbers_of_float16_have_few_digits__but_not_of_bfloat16(
    snippet, fails
):
    """`bfloat16` has another relative step, the same down to 2⁻³⁰."""
    edited = snippet.edit(
        "spacing(powers, dtype) for", "spacing(powers, torch.bfloat16) for"
    )
    fails(test_small_numbers_of_float16_have_few_digits, edited)


def test_the_line_ends_where_the_format_ends(snippet):
    steps, exponents = relative(snippet)
    reach = {"float16": (-24, 15), "float8_e4m3fn": (-9, 8)}

    for name, (low, high) in reach.items():
        drawn = [
            each
            for each, step in zip(exponents, steps[name], strict=True)
            if not step.isnan()
        ]
        assert drawn == list(range(low, high + 1))
        stored = (2.0 ** torch.arange(-30.0, 31)).to(getattr(torch, name))
        exact = stored.double() == 2.0 ** torch.arange(-30.0, 31).double()
        assert exact.nonzero().flatten().sub(30).tolist() == drawn
        assert not stored[: low + 30].double().any()


@pytest.mark.parametrize("name", ["float16", "float8_e4m3fn"])
def test_the_line_ends_where_the_format_ends__but_not_in_bfloat16(
    snippet, fails, name
):
    """The line of `bfloat16` reaches from 2⁻³⁰ to 2³⁰, across the whole
    picture.
    """
    edited = snippet.edit(
        "spacing(powers, dtype) for",
        f"spacing(powers, torch.bfloat16 if name == {name!r} else dtype) for",
    )
    fails(test_the_line_ends_where_the_format_ends, edited)


def stop(snippet, name):
    """Return where the ones stop; the number before them is 0."""
    return (
        snippet.only("sum")
        .edit("# %% sum", "# %% sum\nimport torch")
        .after("sum")
        .stops[name]
    )


def test_a_bfloat16_sum_of_ones_stops_at_256(snippet):
    last = stop(snippet, "bfloat16")
    assert last == 256
    run = snippet.only("settings", "limits", "spacing").after("spacing")
    step = run.spacing(torch.tensor([last]).double(), run.formats["bfloat16"])
    assert last + step.item() == 258
    assert torch.tensor(257.0).to(run.formats["bfloat16"]).item() == 256


class Calls(TorchDispatchMode):
    """Notes the results of additions and sums, by dtype."""

    def __init__(self):
        super().__init__()
        self.added, self.summed = {}, []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function is torch.ops.aten.add.Tensor:
            self.added.setdefault(made.dtype, []).append(made.item())
        if function in (
            torch.ops.aten.sum.default,
            torch.ops.aten.sum.dim_IntList,
        ):
            self.summed.append(made.dtype)
        return made


def noted(snippet):
    """Return the additions and the sums that the program makes."""
    alone = snippet.only("sum").edit("# %% sum", "# %% sum\nimport torch")
    with Calls() as calls:
        alone.after("sum")
    return calls


def test_a_bfloat16_sum_of_ones_stops_at_256__also_by_each_total(snippet):
    added = noted(snippet).added[torch.bfloat16]
    twice = [k for k in range(1, 257) for _ in ("try", "take")]
    assert added == [*twice, 256]


def test_a_float16_sum_of_ones_stops_at_2048__also_by_each_total(snippet):
    added = noted(snippet).added[torch.float16]
    twice = [k for k in range(1, 2049) for _ in ("try", "take")]
    assert added == [*twice, 2048]


TWOS = (
    "while (total + 1) != total:\n        total = total + 1",
    "while (total + 2) != total:\n        total = total + 2",
)
TOTALS = "torch.tensor(0.0, dtype=dtype)"


@edits(
    ("of twos", *TWOS),
    ("from below", TOTALS, "torch.tensor(-999.0, dtype=dtype)"),
    ("in float16", TOTALS, "torch.tensor(0.0, dtype=torch.float16)"),
)
def test_a_bfloat16_sum_of_ones_stops_at_256__but_not(
    snippet, fails, old, new
):
    """Twos stop at 512; from -999 on, ones stop at -1,000; and in `float16`,
    at 2,048.
    """
    fails(test_a_bfloat16_sum_of_ones_stops_at_256, snippet.edit(old, new))


def test_a_float16_sum_of_ones_stops_at_2048(snippet):
    last = stop(snippet, "float16")
    assert last == 2048
    run = snippet.only("settings", "limits", "spacing").after("spacing")
    step = run.spacing(torch.tensor([last]).double(), run.formats["float16"])
    assert last + step.item() == 2050
    assert torch.tensor(2049.0).to(run.formats["float16"]).item() == 2048


@edits(
    ("of twos", *TWOS),
    ("in bfloat16", TOTALS, "torch.tensor(0.0, dtype=torch.bfloat16)"),
)
def test_a_float16_sum_of_ones_stops_at_2048__but_not(
    snippet, fails, old, new
):
    """Twos stop at 4,096; and in `bfloat16`, ones stop at 256."""
    fails(test_a_float16_sum_of_ones_stops_at_2048, snippet.edit(old, new))


@pytest.fixture
def threads():
    """Give back the threads that a test takes."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


NUMBERS_OF_ONES = (256, 257, 2049, 4096, 5001, 32_000)


def test_sum_does_not_stop__also_in_one_call(snippet):
    assert noted(snippet).summed == [torch.bfloat16, torch.float16]


def test_sum_does_not_stop(snippet, numbers=NUMBERS_OF_ONES):
    alone = snippet.only("sum").edit("# %% sum", "# %% sum\nimport torch")

    assert alone.after("sum").called == {"bfloat16": 4096, "float16": 4096}
    for number in numbers:
        edited = alone.edit("torch.ones(4096", f"torch.ones({number}")
        called = edited.after("sum").called
        assert len(called) == 2
        for name, total in called.items():
            dtype = getattr(torch, name)
            assert total == torch.tensor(float(number)).to(dtype).item()
            assert total > 0.99 * number


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("number", [2, 7])
def test_sum_does_not_stop__also_with_threads(snippet, number):
    torch.set_num_threads(number)
    test_sum_does_not_stop(snippet, (257, 2053, 31_889, 32_000))


@pytest.mark.usefixtures("threads")
def test_sum_does_not_stop__ends_for_36_049_ones_on_four_threads(
    snippet, fails
):
    """For 36,049 ones on four threads: the result is not the number rounded
    once.
    """
    torch.set_num_threads(4)
    fails(test_sum_does_not_stop, snippet, (36_049,))


def test_sum_does_not_stop__but_not_unrounded(snippet, fails):
    """In `float32`, the number of ones is not rounded at all."""
    edited = snippet.edit("torch.ones(4096, dtype=dtype)", "torch.ones(4096)")
    fails(test_sum_does_not_stop, edited)


def test_sum_does_not_stop__but_one_by_one_it_does(snippet, fails):
    """Added up one by one, the ones stop at 256 and at 2,048."""
    edited = snippet.edit("dtype=dtype).sum()", "dtype=dtype)[0].mul(total)")
    fails(test_sum_does_not_stop, edited)


ANSWER = ("settings", "options", "limits", "answer")


def test_the_answer_has_the_fewest_bits(snippet, off_by=0.003, formats=FOUR):
    numbers = [0.1, 19.99, 20.0, 255.0, 70_000.0, 1e-8, 1e39, 0.0, 1 / 3]
    numbers += [-number for number in numbers if number]
    edited = given(
        snippet, NUMBERS=numbers, OFF_BY=off_by, FORMATS=list(formats)
    )
    answers = edited.only(*ANSWER).after("answer").answers

    for number in numbers:
        good = []
        for name in formats:
            dtype = getattr(torch, name)
            stored = (
                torch.tensor(number, dtype=torch.float64)
                .to(dtype)
                .double()
                .item()
            )
            bits = 8 * dtype.itemsize
            if abs(stored - number) <= off_by * abs(number):
                good.append((bits, name))
        fewest = [name for bits, name in good if bits == min(good)[0]]
        assert answers[number] == (fewest or ["not here"])
        assert answers[number] == answers[-number]


@pytest.mark.parametrize("tolerance", [0.0, 0.0005, 0.1])
def test_the_answer_has_the_fewest_bits__also_with_a_tolerance_of(
    snippet, tolerance
):
    test_the_answer_has_the_fewest_bits(snippet, tolerance)
    test_the_answer_has_the_fewest_bits(
        snippet, tolerance, ["float64", "float8_e5m2", "bfloat16", "float16"]
    )
    test_the_answer_has_the_fewest_bits(
        snippet, tolerance, ["float16", "float8_e4m3fnuz", "float8_e5m2fnuz"]
    )


@edits(
    ("the most", "good[min(good)]", "good[max(good)]"),
    ("absolute", "OFF_BY * exact.abs()", "OFF_BY"),
    ("one of them", "return good[min(good)]", "return good[min(good)][:1]"),
    (
        "signed",
        "(exact.to(dtype).double() - exact).abs()",
        "exact.to(dtype).double() - exact",
    ),
    ("less", "error <= OFF_BY", "error < OFF_BY"),
    ("by its name", "limits[name].bits, []", "-limits[name].bits, []"),
    ("of its sign", "torch.tensor(number,", "torch.tensor(number + 0.1,"),
)
def test_the_answer_has_the_fewest_bits__but_not(snippet, fails, old, new):
    """With `max()`, it names formats of more bits; the other edits measure the
    error otherwise, or list other formats.
    """
    fails(test_the_answer_has_the_fewest_bits, snippet.edit(old, new))


def test_the_answer_may_be_not_here(snippet):
    numbers = [1e39, -1e39, 1e300, 1.0]
    edited = given(snippet, NUMBERS=numbers).only(*ANSWER)

    with no_error():
        answers = edited.after("answer").answers
    for number in numbers[:3]:
        assert answers[number] == ["not here"]
    assert answers[1.0] == ["float8_e4m3fn"]


@edits(
    ("always an answer", 'else ["not here"]', "else [FORMATS[0]]"),
    ("never one", "if good else", "if 0 else"),
    ("none asked", " if good else", " if 1 else"),
)
def test_the_answer_may_be_not_here__but_not(snippet, fails, old, new):
    """With `else [FORMATS[0]]`, it names a format that cannot store the
    number; the others always say "not here", or fail.
    """
    fails(test_the_answer_may_be_not_here, snippet.edit(old, new))
