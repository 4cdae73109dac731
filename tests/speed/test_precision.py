"""The claims of docs/speed/precision.md."""

import functools
import os
import subprocess
import sys
import threading
from operator import attrgetter

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, older

MATMUL = torch.backends.cuda.matmul
WORDS = ("highest", "high", "medium")


def after(snippet, *cells):
    """Run these cells alone."""
    return snippet.only("switch", *cells).after(cells[-1])


NEW = api_since("2.9", "fp32_precision")


def new_names(*names):
    """Return what these say by the new name; torch has it since 2.9."""
    if older(torch.__version__, "2.9"):
        return []
    return [attrgetter(each)(torch.backends).fp32_precision for each in names]


# Do this


def elsewhere(ask):
    """Return what another thread is told."""
    told = []
    thread = threading.Thread(target=lambda: told.append(ask()))
    thread.start()
    thread.join()
    return told[0]


def test_the_setting_is_for_all_threads(snippet):
    ask = torch.get_float32_matmul_precision
    snippet.after("switch")
    assert elsewhere(ask) == "high"
    asked = "torch.get_float32_matmul_precision()"
    edited = snippet.edit("torch.cdist(points, points)", asked)
    assert after(edited, "every-digit").distances == "highest"
    assert elsewhere(ask) == "high"
    assert elsewhere(lambda: MATMUL.allow_tf32) is True
    assert {*elsewhere(lambda: new_names("cuda.matmul"))} <= {"tf32"}
    for word in WORDS:
        elsewhere(lambda word=word: torch.set_float32_matmul_precision(word))
        assert ask() == word


@edits(
    (
        "another word",
        'precision("high")\nprint("now',
        'precision("medium")\nprint("',
    ),
    ("the first line", '("highest")\npoints', '("high")\npoints'),
    (
        "the last line",
        '(points, points)\ntorch.set_float32_matmul_precision("high")',
        "(points, points)",
    ),
)
def test_the_setting_is_for_all_threads__but_not_without(
    snippet, fails, old, new
):
    """Other threads see `"medium"` if you set that, and `"highest"` without
    the last line; without the one before, the distances are computed at
    `"high"`.
    """
    fails(test_the_setting_is_for_all_threads, snippet.edit(old, new))


# How it works

ENDS = (0, 0.0001, 60_000, 1, 3, 2049, 2051)


def test_rounded_is_like_the_types(snippet, ends=ENDS):
    rounded = after(snippet, "rounded").rounded
    sizes = torch.logspace(-4, 4.77, 20001)
    assert sizes.max() < 60_000
    numbers = torch.cat([sizes, -sizes, sizes.round(), torch.tensor(ends)])

    assert rounded(numbers, 7).equal(numbers.bfloat16().float())
    assert rounded(numbers, 10).equal(numbers.half().float())
    assert rounded(numbers, 23).equal(numbers)
    assert rounded(numbers, 7).dtype == torch.float32


@edits(
    (".round()\n", ".trunc()\n"),
    (".round()\n", ".ceil()\n"),
    ("(bits + 1)).round", "bits).round"),
    ("exponent - bits - 1", "exponent - bits"),
)
def test_rounded_is_like_the_types__but_not(snippet, fails, old, new):
    """Cut off or rounded up, the last bit differs; scaled by another power of
    2, numbers are halved or doubled.
    """
    fails(test_rounded_is_like_the_types, snippet.edit(old, new))


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(70_000.0, id="above 65,504, which float16 cannot hold"),
        pytest.param(0.00000123, id="for a number that float16 rounds more"),
    ],
)
def test_rounded_is_like_the_types__ends(snippet, number, fails):
    """Where `float16` has other limits: above 65,504 it is `inf`, and tiny
    numbers are rounded more.
    """
    fails(test_rounded_is_like_the_types, snippet, [number])


DIGITS = ("rounded", "errors")


def test_bits_cost_digits(snippet, seed=0):
    if seed:
        snippet = snippet.edit(
            'torch.manual_seed(0)\ntorch.set_float32_matmul_precision("highe',
            f"torch.manual_seed({seed})\n"
            'torch.set_float32_matmul_precision("highe',
        )
    torch.set_float32_matmul_precision("medium")
    run = after(snippet, *DIGITS)
    assert torch.get_float32_matmul_precision() == "highest"

    assert (run.summands[0], run.summands[-1]) == (4, 4096)
    assert {type(each) for each in run.errors[10]} == {float}
    for ten, seven, float32 in zip(
        run.errors[10], run.errors[7], run.errors[23], strict=True
    ):
        assert 0.00025 < ten < 0.00035
        assert 0.0020 < seven < 0.0026
        assert 0 < float32 < 0.000001
    for summands in (5, 37, 3000):
        assert 0.00025 < run.relative_error(10, summands) < 0.00035
        assert 0.0020 < run.relative_error(7, summands) < 0.0026
        assert 0 < run.relative_error(23, summands) < 0.000001
    a, b = torch.randn(2, 80, 80)  # measured in another way
    product = (a.bfloat16().double() @ b.bfloat16().double()).flatten()
    right = (a.double() @ b.double()).flatten()
    assert 0.0020 < (product - right).norm() / right.norm() < 0.0026


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_bits_cost_digits__also_from(snippet, seed):
    test_bits_cost_digits(snippet, seed)


@edits(
    ("cut off", ".round()\n", ".trunc()\n"),
    ("one factor", "@ rounded(b, bits)", "@ b"),
    ("no factor", "rounded(a, bits) @ rounded(b, bits)", "a @ b"),
    (
        "positive numbers",
        "torch.randn(64, summands), torch.randn(",
        "torch.rand(64, summands), torch.rand(",
    ),
    ("nine bits", "[relative_error(bits,", "[relative_error(min(bits, 9),"),
)
def test_bits_cost_digits__but_not(snippet, fails, old, new):
    """Cut off, 10 bits cost 0.08 percent; the other edits round one factor or
    none, or take positive numbers or 9 bits.
    """
    fails(test_bits_cost_digits, snippet.edit(old, new))


# What goes wrong


def distances(run, places):
    """Return squared distances by 10 bits, by `float16`, and right."""
    right = (places[:, None].double() - places.double()).square().sum(-1)
    lengths = places.square().sum(1)
    factor = places.half().float()
    again = lengths[:, None] + lengths - 2 * factor @ factor.T
    return run.squared(places, 10), again, right


STATIONS = ("rounded", "stations")


def seeded(snippet, seed):
    """Return the program with other stations."""
    new = f"torch.manual_seed({seed})\nplaces"
    return snippet.edit("torch.manual_seed(0)\nplaces", new)


def test_far_places_lose_their_distances(snippet):
    run = after(snippet, *STATIONS)
    found, again, right = distances(run, run.places)

    assert run.places.shape == (30, 2)
    extent = run.places.max(0).values - run.places.min(0).values
    assert ((extent > 10) & (extent < 20)).all()
    assert torch.tensor([300.0, 400.0]).norm() == 500
    assert (found - right).abs().max() > 100
    assert (found < 0).any()
    assert (run.squared(run.places, 23) - right).abs().max() < 1
    torch.testing.assert_close(found, again, rtol=0, atol=0.5)


@pytest.mark.parametrize("seed", range(1, 6))
def test_far_places_lose_their_distances__also_of(snippet, seed):
    test_far_places_lose_their_distances(seeded(snippet, seed))


def test_far_places_lose_their_distances__but_not_near_the_origin(
    snippet, fails
):
    """Near the origin, no squared distance is off by more than about 1 km²."""
    edited = snippet.edit("([300.0, 400.0])", "([3.0, 4.0])")
    fails(test_far_places_lose_their_distances, edited)


@edits(
    ("all bits", "near = rounded(places, bits)", "near = places"),
    ("- 2 * near @", "+ 2 * near @"),
    (
        "without a product",
        "lengths[:, None] + lengths - 2 * near @ near.T",
        "(near[:, None] - near).square().sum(-1)",
    ),
)
def test_far_places_lose_their_distances__but_not(snippet, fails, old, new):
    """With all bits, or without a product, they are far less off; with a plus
    sign, they are no distances.
    """
    fails(test_far_places_lose_their_distances, snippet.edit(old, new))


def test_cdist_hides_negative_squares(snippet, points=30, mode=None):
    """No cell decides it: 100,000 km away, `float32` has too few bits, too."""
    run = after(snippet, *STATIONS)
    far = run.places[:points] + 100_000
    exact = "donot_use_mm_for_euclid_dist"
    mode = mode or "use_mm_for_euclid_dist_if_necessary"
    apart = ~torch.eye(points, dtype=torch.bool)

    assert (run.squared(far, 23)[apart] < 0).any()
    assert (torch.cdist(far, far, compute_mode=exact)[apart] > 0.1).all()
    found = torch.cdist(far, far, compute_mode=mode)
    assert found.isfinite().all()
    assert found[apart].min() == 0


@pytest.mark.parametrize(
    ("points", "mode"), [(25, None), (30, "donot_use_mm_for_euclid_dist")]
)
def test_cdist_hides_negative_squares__ends(snippet, fails, points, mode):
    """Of 25 points or fewer, or in the exact mode: `cdist` uses no product."""
    fails(test_cdist_hides_negative_squares, snippet, points, mode)


def test_the_mean_first_keeps_digits(snippet):
    run = after(snippet, *STATIONS, "near")
    found, again, right = distances(run, run.around)
    apart = (run.places[:, None].double() - run.places).square().sum(-1)

    assert run.around.mean(0).abs().max() < 0.001
    assert (found - right).abs().max() < 1
    assert (right - apart).abs().max() < 0.1  # it changes no distance
    torch.testing.assert_close(found, again, rtol=0, atol=0.5)


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_mean_first_keeps_digits__also_of(snippet, seed):
    test_the_mean_first_keeps_digits(seeded(snippet, seed))


@edits(
    ("places - places.mean(0)", "places"),
    ("places - places.mean(0)", "places - places.mean()"),
    ("places - places.mean(0)", "(places - places.mean(0)) / 2"),
    ("rounded(places, bits)", "rounded(places, 7)"),
)
def test_the_mean_first_keeps_digits__but_not(snippet, fails, old, new):
    """Without the mean of each coordinate, or with 7 bits, they are off by
    more; divided by 2, they are other distances.
    """
    fails(test_the_mean_first_keeps_digits, snippet.edit(old, new))


def test_another_word_only_warns(snippet, word="tf32"):
    if word != "tf32":
        snippet = snippet.edit('precision("tf32")', f'precision("{word}")')
    start = 'precision("high")\nprint("now'
    for before in WORDS:
        edited = snippet.edit(start, f'precision("{before}")\nprint("now')
        with no_error():
            run = after(edited, "another-word")
        said = [str(each.message) for each in run.caught]
        text = f"{word} is not one of 'highest', 'high', or 'medium'"
        assert [each[: len(text)] for each in said] == [text]
        assert torch.get_float32_matmul_precision() == before


@pytest.mark.parametrize("word", ["HIGH", "Medium", "ieee", "low", "", "bf16"])
def test_another_word_only_warns__also_for(snippet, word):
    test_another_word_only_warns(snippet, word)


@edits(
    ('precision("tf32")\n\n', 'precision("high")\n\n'),
    (
        'precision("tf32")\n\n',
        'precision("tf32")\n'
        "    torch.backends.cuda.matmul.allow_tf32 = True\n\n",
    ),
)
def test_another_word_only_warns__but_not(snippet, fails, old, new):
    """Here the switch for TF32 is set as well, which changes the setting; and
    `"high"` is one of the right words.
    """
    fails(test_another_word_only_warns, snippet.edit(old, new))


MIXED = "PyTorch is checking whether allow_tf32_new is enabled for cuBlas matm"


@NEW
def test_mixed_names_are_refused(snippet):
    said = vars(after(snippet, "mixed")).get("refused", "nothing")
    assert said.startswith(MIXED)
    for old, new in ((False, "tf32"), (True, "ieee"), (True, "none")):
        MATMUL.allow_tf32 = old
        MATMUL.fp32_precision = new
        with pytest.raises(RuntimeError, match="mix of the legacy and new"):
            _ = MATMUL.allow_tf32


@edits(
    ('fp32_precision = "tf32"  # sets', 'fp32_precision = "ieee"  # sets'),
    ('fp32_precision = "tf32"  # sets', "allow_tf32 = True  # sets"),
)
def test_mixed_names_are_refused__but_not(snippet, fails, old, new):
    """With `"ieee"`, or by the old name alone, both names say the same, so
    nothing is raised.
    """
    fails(test_mixed_names_are_refused, snippet.edit(old, new))


@NEW
def test_one_call_sets_both_names(snippet):
    with no_error():
        after(snippet, "mixed", "one-way")
        assert torch.get_float32_matmul_precision() == "high"
    assert (MATMUL.allow_tf32, MATMUL.fp32_precision) == (True, "tf32")
    for mixed in ("ieee", "tf32", "none"):
        for word in WORDS:
            MATMUL.fp32_precision = mixed
            with no_error():
                torch.set_float32_matmul_precision(word)
                allowed = MATMUL.allow_tf32
                assert torch.get_float32_matmul_precision() == word
            assert allowed == (word != "highest")
            expected = "ieee" if word == "highest" else "tf32"
            assert MATMUL.fp32_precision == expected


def test_one_call_sets_both_names__but_not_by_the_new_name(snippet, fails):
    """Set by the new name, the mix stays, and reading the setting raises an
    error.
    """
    edited = snippet.edit(
        'torch.set_float32_matmul_precision("high")\n\nprint(torch.backends',
        'torch.backends.cuda.matmul.fp32_precision = "tf32"\n\n'
        "print(torch.backends",
    )
    edited = edited.edit(
        "print(torch.backends.cuda.matmul.allow_tf32)\nprint",
        "print",
    )
    fails(test_one_call_sets_both_names, edited)


@NEW
def test_the_general_name_comes_last(snippet):
    run = after(snippet, "general")
    assert (run.general, run.products) == ("ieee", "tf32")
    assert torch.backends.fp32_precision == "none"
    for word in WORDS:
        torch.set_float32_matmul_precision(word)
        before = MATMUL.fp32_precision
        for general in ("ieee", "tf32", "none"):
            torch.backends.fp32_precision = general
            assert MATMUL.fp32_precision == before
            assert torch.get_float32_matmul_precision() == word


@pytest.mark.parametrize("general", ["ieee", "tf32"])
def test_the_general_name_comes_last__also_where_nothing_is_set(general):
    torch.backends.fp32_precision = general
    MATMUL.fp32_precision = "none"
    assert MATMUL.fp32_precision == general


def test_the_general_name_comes_last__but_not_with_no_other(snippet, fails):
    """With `"none"`, products have no setting of their own, and follow the
    general one.
    """
    line = 'torch.backends.fp32_precision = "ieee"'
    none = 'torch.backends.cuda.matmul.fp32_precision = "none"'
    edited = snippet.edit(line, f"{none}\n{line}")
    fails(test_the_general_name_comes_last, edited)


OVERRIDE = "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"
STARTS = {
    "": "",
    "products": "torch.set_float32_matmul_precision('high')",
    "convolutions": "torch.backends.cudnn.allow_tf32 = False",
}
READ = """
import torch
for line in {lines}:
    exec(line)
    print(
        torch.get_float32_matmul_precision(),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        *({new_names}),
    )
    torch.backends.cudnn.allow_tf32 = True
    torch.set_float32_matmul_precision("highest")
"""
NEW_NAMES = """
        torch.backends.cudnn.conv.fp32_precision == "tf32",
        torch.backends.cudnn.rnn.fp32_precision == "tf32",
"""


@functools.cache
def fresh(override):
    """Return what a fresh process says at its start, and after each line."""
    new_names = "" if older(torch.__version__, "2.9") else NEW_NAMES
    environment = {k: v for k, v in os.environ.items() if k != OVERRIDE}
    lines = [*STARTS.values(), ""]  # the last after a call of "highest"
    if override is not None:
        environment[OVERRIDE] = override
    done = subprocess.run(
        [sys.executable, "-c", READ.format(lines=lines, new_names=new_names)],
        check=True,
        capture_output=True,
        text=True,
        env=environment,
    )
    return [line.split() for line in done.stdout.splitlines()]


def test_float32_products_are_exact_by_default(
    snippet, line="", override=None
):
    """No cell decides it: a fresh process is asked."""
    said = fresh(override)[list(STARTS).index(line)]
    assert said[:3] == ["highest", "False", "True"]
    assert {*said[3:]} <= {"True"}
    assert len(said) == (3 if older(torch.__version__, "2.9") else 5)


@pytest.mark.parametrize("line", ["products", "convolutions"])
def test_float32_products_are_exact_by_default__ends_if_told(
    snippet, fails, line
):
    """Once a line has switched TF32 on for products, or off for
    convolutions.
    """
    fails(test_float32_products_are_exact_by_default, snippet, line)


def test_float32_products_are_exact_by_default__ends_in_an_environment(
    snippet, fails
):
    """With `TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1`, a process starts at
    `"high"`.
    """
    start, *_, told = fresh("1")
    assert (start[:2], told[:2]) == (["high", "True"], ["highest", "False"])
    fails(test_float32_products_are_exact_by_default, snippet, "", "1")


def test_two_lines_switch_both_off(snippet, general=None):
    torch.set_float32_matmul_precision("high")
    assert after(snippet, "everywhere").all_off == (False, False)
    cudnn = torch.backends.cudnn
    assert cudnn.allow_tf32
    if general:
        general.fp32_precision = "tf32"
    for word in WORDS:
        torch.set_float32_matmul_precision(word)
        cudnn.allow_tf32 = True
        if new_names("cuda.matmul"):
            cudnn.conv.fp32_precision = "tf32"
            cudnn.rnn.fp32_precision = "tf32"
            MATMUL.fp32_precision = "tf32"
        torch.set_float32_matmul_precision("highest")
        cudnn.allow_tf32 = False
        assert "tf32" not in new_names("cuda.matmul", "cudnn.conv")
        assert "tf32" not in new_names("cudnn.rnn")
        assert (MATMUL.allow_tf32, cudnn.allow_tf32) == (False, False)


@pytest.mark.parametrize(
    "general",
    [torch.backends, torch.backends.cudnn],
    ids=["torch.backends", "torch.backends.cudnn"],
)
def test_two_lines_switch_both_off__ends_under_a_general_name(
    snippet, fails, general
):
    """If the general name says `"tf32"`, convolutions follow it, since the
    second line leaves them no setting of their own.
    """
    if older(torch.__version__, "2.9"):
        pytest.skip("this torch has no fp32_precision")
    try:
        fails(test_two_lines_switch_both_off, snippet, general)
    finally:
        general.fp32_precision = "none"


@edits(
    ('precision("highest")\ntorch.b', 'precision("medium")\ntorch.b'),
    ("cudnn.allow_tf32 = False\n", "cudnn.allow_tf32 = True\n"),
)
def test_two_lines_switch_both_off__but_not_with(snippet, fails, old, new):
    """With `"medium"` or `True` in one of the two lines, one switch
    stays on.
    """
    fails(test_two_lines_switch_both_off, snippet.edit(old, new))


# Where it ends


@NEW
def test_medium_reaches_the_cpu(snippet, call=None):
    """No cell decides it: the two settings of PyTorch are compared."""
    call = call or torch.set_float32_matmul_precision
    names = dict(zip(WORDS, ("ieee", "tf32", "bf16"), strict=True))
    for word, expected in names.items():
        call(word)
        assert torch.backends.mkldnn.matmul.fp32_precision == expected


def test_medium_reaches_the_cpu__ends_by_another_name(snippet, fails):
    """If you set `torch.backends.cuda.matmul.allow_tf32` in its place, the
    CPU's switch stays as it is, and the two may contradict each other.
    """
    torch.set_float32_matmul_precision("high")
    MATMUL.allow_tf32 = False
    with pytest.raises(RuntimeError, match="without a specific backend name"):
        torch.get_float32_matmul_precision()

    def call(word):
        MATMUL.allow_tf32 = word != "highest"

    fails(test_medium_reaches_the_cpu, snippet, call)


@pytest.mark.cuda
def test_the_identity_shows_the_rounding(snippet):
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("a GPU before Ampere")
    run = after(snippet, "on-cuda")

    assert run.exact.equal(run.kelvin)
    off = ((run.fewer - run.kelvin) / run.kelvin).abs()
    assert 0 < off.max() < 0.001
    assert torch.get_float32_matmul_precision() == "highest"


@pytest.mark.cuda
@edits(
    ('precision("high")\n    fewer', 'precision("highest")\n    fewer'),
    ('precision("highest")\n    exact', 'precision("high")\n    exact'),
)
def test_the_identity_shows_the_rounding__but_not(snippet, fails, old, new):
    """Here both products use `"highest"`, or both use `"high"`."""
    if torch.cuda.get_device_capability() < (8, 0):
        pytest.skip("a GPU before Ampere")
    fails(test_the_identity_shows_the_rounding, snippet.edit(old, new))
