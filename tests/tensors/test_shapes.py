"""The claims of docs/tensors/shapes.md."""

import warnings
from itertools import permutations, product
from math import prod

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import no_error

VIEW_REFUSED = "view size is not compatible with input tensor's size and"
DTYPES = [torch.float32, torch.int64, torch.bfloat16]
LAST = torch.channels_last


def edited(snippet, *pairs):
    """Return a snippet after several edits."""
    for old, new in pairs:
        snippet = snippet.edit(old, new)
    return snippet


def error_of(call):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call()
    except (RuntimeError, TypeError) as error:
        return unnamed(str(error))
    return ""


def unnamed(said):
    """Return a complaint without the name of what torch 2.15 has called."""
    return f"{said}".removeprefix("add").removeprefix("mm: ")


def read(x):
    """Return the numbers of a tensor row by row."""
    if not x.dim():
        return [x.item()]
    return [number for each in x for number in read(each)]


def memory(x):
    """Return the place of the memory of a tensor, and of its first number."""
    return x.untyped_storage().data_ptr(), x.storage_offset()


def numbered(*shape, dtype=torch.float32):
    """Return a contiguous tensor of numbers that all differ."""
    return torch.arange(prod(shape)).to(dtype).reshape(shape)


def several(*shape, dtype=torch.float32):
    """Return a contiguous, a permuted and a sliced tensor of one shape."""
    turned = numbered(*reversed(shape), dtype=dtype)
    larger = numbered(*(2 * size for size in shape), dtype=dtype)
    return [
        numbered(*shape, dtype=dtype),
        turned.permute(tuple(reversed(range(len(shape))))),
        larger[tuple(slice(1, 1 + size) for size in shape)],
        larger[tuple(slice(None, None, 2) for _ in shape)],
    ]


def unlike():
    """Return tensors of three dimensions that lie in memory in many ways."""
    for order in permutations(range(3)):
        for shape in ((2, 3, 4), (2, 1, 3), (1, 1, 2), (3, 3, 3)):
            for each in several(*shape):
                yield each.permute(order)
        yield torch.arange(4.0).expand(2, 3, 4).permute(order)
        yield torch.arange(2.0)[:, None, None].expand(2, 3, 4).permute(order)


# Do this


def test_permute_takes_indices_along(snippet):
    run = snippet.after("do-this")
    pairs = [(run.flag, run.channels)]
    for shape in ((2, 3, 4), (4, 1, 2), (3, 3, 3)):
        for dtype in DTYPES:
            for x in several(*shape, dtype=dtype):
                pairs.append((x, x.permute(2, 0, 1)))

    for x, permuted in pairs:
        i, j, k = x.shape
        assert permuted.shape == (k, i, j)
        for i, j, k in product(*map(range, x.shape)):
            assert permuted[k, i, j] == x[i, j, k]


@pytest.mark.parametrize(
    "call",
    ["reshape(3, 4, 6)", "transpose(0, 2)", "permute(2, 0, 1).flip(2)"],
)
def test_permute_takes_indices_along__but_not_with_another_call(
    snippet, call, fails
):
    edited = snippet.edit("= flag.permute(2, 0, 1)", f"= flag.{call}")
    fails(test_permute_takes_indices_along, edited)


BOTH = ["unsqueeze", "squeeze"]


def test_unsqueeze_and_squeeze(snippet):
    run = snippet.after("regroup")
    unsqueeze, squeeze = (run.regroup[f"{name}(0)"] for name in BOTH)

    assert run.batch.shape == (1, *run.channels.shape)
    assert run.batch[0].equal(run.channels)
    for shape in ((), (3,), (1, 2), (2, 3, 4)):
        for dtype in DTYPES:
            for x in several(*shape, dtype=dtype):
                assert unsqueeze(x).shape == (1, *shape)
                assert unsqueeze(x)[0].equal(x)
                assert squeeze(unsqueeze(x)).equal(x)
                assert squeeze(unsqueeze(x)).shape == shape


@pytest.mark.parametrize("call", ["unsqueeze(-1)", "add(1).unsqueeze(0)"])
@pytest.mark.parametrize("what", ["batch = channels.", "lambda x: x."])
def test_unsqueeze_and_squeeze__but_not_otherwise(snippet, what, call, fails):
    edited = snippet.edit(f"{what}unsqueeze(0)", f"{what}{call}")
    fails(test_unsqueeze_and_squeeze, edited)


@pytest.mark.parametrize("call", ["squeeze()", "squeeze(-1)", "flatten()"])
def test_unsqueeze_and_squeeze__but_not_at_another_place(snippet, call, fails):
    edited = snippet.edit("lambda x: x.squeeze(0)", f"lambda x: x.{call}")
    fails(test_unsqueeze_and_squeeze, edited)


def test_flatten_keeps_the_samples(snippet):
    run = snippet.after("regroup")
    flatten = run.regroup["flatten(1)"]

    assert run.rows.shape == (1, 72)
    assert read(run.rows[0]) == read(run.batch[0])
    for shape in ((2, 3), (0, 3), (3, 1, 2), (2, 3, 4, 5)):
        for dtype in DTYPES:
            for x in several(*shape, dtype=dtype):
                assert flatten(x).shape == (len(x), prod(shape[1:]))
                for sample, row in zip(x, flatten(x), strict=True):
                    assert read(row) == read(sample)


@pytest.mark.parametrize(
    "call",
    ["flatten()", "flatten(0, 1)", "flatten(1).flip(1)", "mT.flatten(1)"],
)
@pytest.mark.parametrize("what", ["rows = batch.", "lambda x: x."])
def test_flatten_keeps_the_samples__but_not_otherwise(
    snippet, what, call, fails
):
    edit = snippet.edit(f"{what}flatten(1)", f"{what}{call}")
    fails(test_flatten_keeps_the_samples, edit)


# How it works


def test_strides_lead_to_each_number(snippet):
    run = snippet.after("strides")

    for x in (run.grey, run.grey.mT, run.flag, run.batch, *unlike()):
        held, first = x.untyped_storage(), x.storage_offset()
        row = torch.empty(0, dtype=x.dtype).set_(held)
        places = [first + place for place in run.walk(x)]
        assert max(places) < len(row)
        assert row[places].tolist() == read(x)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("i * stride for", "i + stride for"),
        ("x.stride(), strict", "x.shape, strict"),
        ("sum(i * stride for", "max(i * stride for"),
    ],
)
def test_strides_lead_to_each_number__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_strides_lead_to_each_number, snippet.edit(old, new))


def test_a_transpose_moves_nothing(snippet):
    run = snippet.after("strides")
    grey, turned = run.grey, run.x

    assert memory(turned) == memory(grey)
    assert turned.equal(torch.tensor([[0, 3], [1, 4], [2, 5]]))
    assert (grey.shape, turned.shape) == ((2, 3), (3, 2))
    assert turned.stride() == grey.stride()[::-1] == (1, 3)


@pytest.mark.parametrize(
    "call", ["mT.clone()", "mT.contiguous()", "reshape(3, 2)"]
)
def test_a_transpose_moves_nothing__but_not_a_copy_or_a_reshape(
    snippet, call, fails
):
    edited = snippet.edit("in (grey, grey.mT):", f"in (grey, grey.{call}):")
    fails(test_a_transpose_moves_nothing, edited)


def test_contiguous_means_in_order(snippet):
    run = snippet.after("strides")
    found = set()

    for x in (run.grey, run.grey.mT, run.flag, run.batch, *unlike()):
        in_order = run.walk(x) == list(range(x.numel()))
        assert x.is_contiguous() == in_order
        found.add(in_order)
    assert found == {True, False}


def test_contiguous_means_in_order__but_not_with_the_first_index_fastest(
    snippet, fails
):
    edited = snippet.edit(
        "    for index in product(*map(range, x.shape)):\n",
        "    for index in product(*map(range, reversed(x.shape))):\n"
        "        index = index[::-1]\n",
    )
    fails(test_contiguous_means_in_order, edited)


def test_contiguous_means_in_order__but_not_with_gaps(snippet, fails):
    edited = snippet.edit(
        "    return places",
        "    return [sorted(set(places)).index(each) for each in places]",
    )
    fails(test_contiguous_means_in_order, edited)


REORDER = ["permute(0, 2, 3, 1)", "movedim(1, -1)", "transpose(-2, -1)", "mT"]
SHAPES = [(1, 3, 4, 6), (2, 3, 4, 2), (2, 1, 4, 1), (1, 1, 4, 2)]


def test_reordering_changes_the_strides(snippet):
    run = snippet.after("reorder")

    assert set(run.reorder) == set(REORDER)
    pairs = []
    for call in run.reorder.values():
        assert call(numbered(1, 3, 4, 6)).shape in ((1, 4, 6, 3), (1, 3, 6, 4))
        for shape, dtype in product(SHAPES, DTYPES):
            pairs += [(x, call(x)) for x in several(*shape, dtype=dtype)]
    for x in several(2, 3, 4):
        for order in permutations(range(3)):
            pairs += [(x, x.permute(order)), (x, x.movedim((0, 1, 2), order))]
            pairs += [(x, x.transpose(*order[:2])), (x, x.mT)]
    for x, result in pairs:
        assert memory(result) == memory(x)
        before = sorted(zip(x.shape, x.stride(), strict=True))
        after = sorted(zip(result.shape, result.stride(), strict=True))
        assert after == before


@pytest.mark.parametrize("after", [".clone()", ".contiguous()", "[:, 1:]"])
@pytest.mark.parametrize("name", REORDER)
def test_reordering_changes_the_strides__but_not_with_more_behind_it(
    snippet, name, after, fails
):
    edit = snippet.edit(f"x: x.{name},", f"x: x.{name}{after},")
    fails(test_reordering_changes_the_strides, edit)


REGROUP = ["reshape(1, 3, -1)", "view(1, 3, -1)", "flatten(1)"]
REGROUP += ["unflatten(2, (2, 2))"]


def test_regrouping_keeps_the_order(snippet):
    run = snippet.after("regroup")

    for name, dtype in product(REGROUP, DTYPES):
        call = run.regroup[name]
        for x in (run.batch, *several(1, 3, 4, 6, dtype=dtype)):
            if "view" in name and error_of(lambda x=x, call=call: call(x)):
                continue
            assert call(x).shape != x.shape
            assert read(call(x)) == read(x)
    for x in unlike():
        before = read(x)
        for shape in ((-1,), (x.shape[0], -1), (-1, x.shape[2]), (1, -1, 1)):
            assert read(x.reshape(shape)) == before
            if not error_of(lambda x=x, shape=shape: x.view(shape)):
                assert read(x.view(shape)) == before
        for start, end in ((0, 1), (1, 2), (0, 2)):
            assert read(x.flatten(start, end)) == before
        for dim in range(3):
            assert read(x.unflatten(dim, (-1, 1))) == before


@pytest.mark.parametrize("name", REGROUP)
def test_regrouping_keeps_the_order__but_not_behind_a_transpose(
    snippet, name, fails
):
    turned = f"x.transpose(2, 3).contiguous().{name}"
    if "unflatten" in name:
        turned = f"x.{name}.transpose(-2, -1)"
    edit = snippet.edit(f"x: x.{name},", f"x: {turned},")
    fails(test_regrouping_keeps_the_order, edit)


def test_regrouping_keeps_the_order__but_not_if_a_view_has_another_dtype(
    snippet, fails
):
    edit = snippet.edit(
        "x: x.view(1, 3, -1),", "x: x.view(torch.uint8).view(1, 3, -1),"
    )
    fails(test_regrouping_keeps_the_order, edit)


# Views and copies


def test_two_names_for_one_order(snippet):
    run = snippet.after("reorder")
    pairs = [("movedim(1, -1)", "permute(0, 2, 3, 1)")]
    pairs += [("mT", "transpose(-2, -1)")]

    for one, other in pairs:
        for shape, dtype in product(SHAPES, DTYPES):
            for x in several(*shape, dtype=dtype):
                first, second = run.reorder[one](x), run.reorder[other](x)
                assert first.equal(second)
                assert first.stride() == second.stride()
                assert memory(first) == memory(second)
    for shape, dtype in product(((2, 3), (1, 4), (2, 3, 4)), DTYPES):
        for x in several(*shape, dtype=dtype):
            turned = run.reorder["mT"](x)
            assert turned.equal(x.transpose(-2, -1))
            assert turned.equal(run.reorder["transpose(-2, -1)"](x))
            for i, j in product(*map(range, shape[-2:])):
                assert turned[..., j, i].equal(x[..., i, j])


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("movedim(1, -1)", "movedim(-1, 1)"),
        ("permute(0, 2, 3, 1)", "permute(0, 3, 1, 2)"),
        ("mT", "transpose(1, 2)"),
        ("transpose(-2, -1)", "transpose(1, 3)"),
    ],
)
def test_two_names_for_one_order__but_not_another_order(
    snippet, name, other, fails
):
    edited = snippet.edit(f"x: x.{name},", f"x: x.{other},")
    fails(test_two_names_for_one_order, edited)


def test_minus_one_is_what_is_left(snippet):
    run = snippet.after("regroup")

    for shape in ((1, 3, 4, 6), (1, 3, 2, 5), (1, 1, 1, 3), (2, 3, 5, 1)):
        x = numbered(*shape)
        for name in ("reshape(1, 3, -1)", "view(1, 3, -1)"):
            assert run.regroup[name](x).shape == (1, 3, x.numel() // 3)
        for left in (1, 2, 3, 6):
            if x.numel() % left:
                continue
            fits = x.numel() // left
            for call in (x.reshape, x.view):
                assert call(-1, left).shape == (fits, left)
                assert call(left, -1).shape == (left, fits)
                assert call(1, -1, left).shape == (1, fits, left)
    for call in (torch.zeros(0, 3).reshape, torch.zeros(0, 3).view):
        assert call(-1, 2).shape == (0, 2)
        with pytest.raises(RuntimeError, match="ambiguous"):
            call(-1, 0)


@pytest.mark.parametrize("call", ["reshape", "view"])
@pytest.mark.parametrize("sizes", ["1, -1, 3", "-1, 3", "1, 1, -1"])
def test_minus_one_is_what_is_left__but_not_another_size(
    snippet, call, sizes, fails
):
    edited = snippet.edit(f"x: x.{call}(1, 3, -1)", f"x: x.{call}({sizes})")
    fails(test_minus_one_is_what_is_left, edited)


VIEWS = [*REORDER, "unsqueeze(0)", "squeeze(0)", "unflatten(2, (2, 2))"]
VIEWS += ["view(1, 3, -1)"]


def shares(x, result):
    """Return whether a write to one of two tensors reaches the other."""
    seen = []
    for one, other, new in ((result, x, -1), (x, result, -2)):
        before = other.clone()
        one[(0,) * one.dim()] = new
        seen.append(not other.equal(before))
    assert seen[0] == seen[1] == (memory(x)[0] == memory(result)[0])
    return seen[0]


def test_most_calls_give_views(snippet):
    run = snippet.after("calls")

    for name in VIEWS:
        call = (run.reorder | run.regroup)[name]
        assert run.kinds[name] == ("view", "view")
        for dtype in DTYPES:
            for x in several(1, 3, 4, 6, dtype=dtype):
                if "view" in name and error_of(lambda x=x, c=call: c(x)):
                    continue
                assert shares(x, call(x))
    for x in several(2, 1, 4, 6):
        for dim in range(4):
            assert shares(x, x.unsqueeze(dim))
            assert shares(x, x.squeeze(dim))
            assert shares(x, x.unflatten(dim, (1, -1)))
            assert shares(x, x.transpose(0, dim))
            assert shares(x, x.movedim(0, dim))
        assert shares(x, x.squeeze())
        assert shares(x, x.view(2, 4, 6))
        assert shares(x, x.view(1, 2, 1, 2, 2, 3, 2))


@pytest.mark.parametrize("call", ["{}.clone()", "contiguous().{}"])
@pytest.mark.parametrize("name", VIEWS)
def test_most_calls_give_views__but_not_with_a_copy_before_or_behind(
    snippet, name, call, fails
):
    edit = snippet.edit(f"x: x.{name},", f"x: x.{call.format(name)},")
    fails(test_most_calls_give_views, edit)


def test_reshape_copies_only_if_it_must(snippet):
    run = snippet.after("calls")
    pairs = []

    assert run.kinds["reshape(1, 3, -1)"] == ("view", "view")
    assert run.kinds["flatten(1)"] == ("copy", "view")
    for name in ("reshape(1, 3, -1)", "flatten(1)"):
        call = run.regroup[name]
        for dtype in DTYPES:
            for x in (run.batch, *several(1, 3, 4, 6, dtype=dtype)):
                pairs.append((x, call(x)))
    samples = numbered(4, 3, 4, 6)[::2]  # each of them in one piece
    pairs.append((samples, run.regroup["flatten(1)"](samples)))
    for x in unlike():
        if 0 in x.stride():
            continue
        a, b, c = x.shape
        for to in ((-1,), (a, b * c), (a * b, c), (a, 1, b, c), (b, a, c)):
            pairs.append((x, x.reshape(to)))
        for start, end in ((0, 1), (1, 2), (0, 2), (1, 1)):
            pairs.append((x, x.flatten(start, end)))
    found = set()
    for x, result in pairs:
        refusal = error_of(lambda x=x, to=result.shape: x.view(to))
        assert refusal.startswith(VIEW_REFUSED) or not refusal
        assert shares(x, result) == (not refusal)
        found.add(bool(refusal))
    assert found == {True, False}


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("reshape(1, 3, -1)", "reshape(1, 3, -1).clone()"),
        ("reshape(1, 3, -1)", "contiguous().reshape(1, 3, -1)"),
        ("reshape(1, 3, -1)", "as_strided((1, 3, 24), (72, 24, 1))"),
        ("flatten(1)", "flatten(1).clone()"),
        ("flatten(1)", "contiguous().flatten(1)"),
        ("flatten(1)", "as_strided((1, 72), (72, 1))"),
    ],
)
def test_reshape_copies_only_if_it_must__but_not_with_another_call(
    snippet, name, other, fails
):
    edit = snippet.edit(f"x: x.{name},", f"x: x.{other},")
    fails(test_reshape_copies_only_if_it_must, edit)


def test_contiguous_copies_the_rest(snippet):
    run = snippet.after("calls")
    contiguous = run.regroup["contiguous()"]

    assert run.kinds["contiguous()"] == ("copy", "itself")
    for x in (run.batch, run.flag, *unlike()):
        result = contiguous(x)
        assert result.equal(x)
        assert result.is_contiguous()
        assert (result is x) == x.is_contiguous()
        assert (memory(result)[0] == memory(x)[0]) == x.is_contiguous()


@pytest.mark.parametrize(
    "call", ["clone()", "view_as(x)", "contiguous()[:]", "mT.contiguous().mT"]
)
def test_contiguous_copies_the_rest__but_not_otherwise(snippet, call, fails):
    edited = snippet.edit("x: x.contiguous(),", f"x: x.{call},")
    fails(test_contiguous_copies_the_rest, edited)


# What goes wrong


def test_the_right_shape_is_not_enough(snippet):
    with no_error():
        run = snippet.after("scrambled")
    flag = snippet.after("do-this").flag
    wanted = torch.empty(3, 4, 6)
    for colour, columns in ((flag[0, 0], slice(3)), (flag[0, 5], slice(3, 6))):
        wanted[:, :, columns] = colour[:, None, None]

    assert wanted.equal(run.flag.permute(2, 0, 1))
    assert run.scrambled.shape == wanted.shape == (3, 4, 6)
    assert run.right.shape == (4, 6)
    assert not run.right.any()
    assert not (run.scrambled == wanted).all(0).any()


SCRAMBLED = "scrambled = flag.reshape(3, 4, 6)"


def test_the_right_shape_is_not_enough__but_not_with_movedim(snippet, fails):
    edited = snippet.edit(SCRAMBLED, "scrambled = flag.movedim(2, 0)")
    fails(test_the_right_shape_is_not_enough, edited)


@pytest.mark.parametrize("sizes", ["4, 3, 6", "6, 4, 3"])
def test_the_right_shape_is_not_enough__but_not_for_other_sizes(
    snippet, sizes, fails
):
    edit = edited(
        snippet,
        (SCRAMBLED, f"scrambled = flag.reshape({sizes})"),
        ("right = (scrambled == channels).all(0)", "right = None"),
    )
    fails(test_the_right_shape_is_not_enough, edit)


def test_the_right_shape_is_not_enough__but_view_refuses_a_turned_flag(
    snippet, fails
):
    edit = snippet.edit(SCRAMBLED, "scrambled = flag.mT.view(3, 4, 6)")
    fails(test_the_right_shape_is_not_enough, edit)


def test_the_right_shape_is_not_enough__but_is_for_a_grey_flag(snippet, fails):
    edit = edited(
        snippet,
        ("[0.84, 0.37, 0.0]", "[0.5, 0.5, 0.5]"),
        ("[0.0, 0.45, 0.70]", "[0.5, 0.5, 0.5]"),
    )
    fails(test_the_right_shape_is_not_enough, edit)


def test_reshaping_back_hides_it(snippet):
    run = snippet.after("scrambled")

    assert not run.scrambled.equal(run.channels)
    assert run.scrambled.reshape(4, 6, 3).equal(run.flag)
    for shape in ((2, 5, 3), (4, 4, 4), (1, 2, 3)):
        for x in several(*shape):
            scrambled = x.reshape(shape[2], *shape[:2])
            assert scrambled.reshape(shape).equal(x)


def test_reshaping_back_hides_it__but_not_behind_permute(snippet, fails):
    edited = snippet.edit(SCRAMBLED, "scrambled = flag.permute(2, 0, 1)")
    fails(test_reshaping_back_hides_it, edited)


def test_reshaping_back_hides_it__but_not_if_turned_meanwhile(snippet, fails):
    edited = snippet.edit(SCRAMBLED, f"{SCRAMBLED}.mT.reshape(3, 4, 6)")
    fails(test_reshaping_back_hides_it, edited)


def joined(shape, dim):
    """Return a shape with a dimension and the next one joined."""
    return (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :])


def test_view_needs_fitting_strides(snippet, another=None):
    run = snippet.after("needed")
    found = set()

    tensors = [run.channels, run.batch[0], run.flag, *unlike()]
    for x in tensors if another is None else [another]:
        for dim in (0, 1):
            if min(x.shape[dim : dim + 2]) < 2:
                continue
            fits = x.stride(dim) == run.needed(x, dim)
            to = joined(x.shape, dim)
            said = error_of(lambda x=x, to=to: x.view(to))
            assert said.startswith("" if fits else VIEW_REFUSED)
            assert bool(said) != fits
            found.add(fits)
    assert found == {True, False}
    assert VIEW_REFUSED in (run.refused["permuted"] or "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.size(dim + 1) *", "x.size(dim) *"),
        ("* x.stride(dim + 1)", "* x.stride(dim)"),
        ("x.size(dim + 1) *", "1 *"),
    ],
)
def test_view_needs_fitting_strides__but_not_of_other_sizes_or_strides(
    snippet, old, new, fails
):
    fails(test_view_needs_fitting_strides, snippet.edit(old, new))


@pytest.mark.parametrize(
    "call", ["batch.view(1, 3, -1)", "batch.contiguous().view(1, -1)"]
)
def test_view_needs_fitting_strides__but_raises_nothing_where_they_fit(
    snippet, call, fails
):
    edit = snippet.edit("lambda: batch.view(1, -1)", f"lambda: {call}")
    fails(test_view_needs_fitting_strides, edit)


def test_view_needs_fitting_strides__but_not_without_numbers(snippet, fails):
    empty = torch.zeros(3, 2, 0).permute(1, 0, 2)
    fails(test_view_needs_fitting_strides, snippet, empty)


def test_transposes_and_columns_refuse(snippet):
    run = snippet.after("view-refused")

    assert VIEW_REFUSED in (run.refused["transposed"] or "")
    assert VIEW_REFUSED in (run.refused["columns"] or "")
    for shape in ((2, 3), (5, 4), (2, 9), (7, 3)):
        for dtype in (*DTYPES, torch.bool):
            x = numbered(*shape, dtype=dtype)
            for call in (x.mT.view, x[:, :2].view):
                said = error_of(lambda call=call: call(-1))
                assert said.startswith(VIEW_REFUSED)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("grey.mT.view", "grey.view"),
        ("grey.mT.view", "grey[:1].mT.view"),
        ("grey[:, :2].view", "grey[:, :3].view"),
        ("grey[:, :2].view", "grey[:1, :2].view"),
    ],
)
def test_transposes_and_columns_refuse__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_transposes_and_columns_refuse, snippet.edit(old, new))


def test_both_fixes_copy(snippet):
    run = snippet.after("view-fixed")
    count = 0

    assert set(run.fixes) == {"reshape", "contiguous"}
    cases = [(run.batch, (1, -1))]
    for x in unlike():
        a, b, c = x.shape
        cases += [(x, to) for to in ((-1,), (a, b * c), (a * b, c), (b, a, c))]
    for x, to in cases:
        if not error_of(lambda x=x, to=to: x.view(to)):
            continue
        for fix in run.fixes.values():
            fixed = fix(x, *to)
            assert memory(fixed)[0] != memory(x)[0]
            assert read(fixed) == read(x)
            assert fixed.dim() == len(to)
            count += 1
    assert count > 40


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x.reshape(*shape)", "x.mT.reshape(*shape)"),
        ("x.contiguous().view(*shape)", "x.mT.contiguous().view(*shape)"),
        (
            "x.reshape(*shape)",
            "x.as_strided(x.contiguous().view(*shape).shape, "
            "x.contiguous().view(*shape).stride())",
        ),
    ],
)
def test_both_fixes_copy__but_not_in_another_order_or_memory(
    snippet, old, new, fails
):
    fails(test_both_fixes_copy, snippet.edit(old, new))


def invalid(count, *sizes):
    """Return how PyTorch refuses some sizes for a number of elements."""
    return f"shape '{[*sizes]}' is invalid for input of size {count}"


def test_sizes_must_multiply_up(snippet):
    run = snippet.after("wrong-count")

    assert run.misfits == [invalid(72, 3, 5, 6), invalid(72, -1, 5)]
    tensors = [numbered(2, 3).mT, numbered(7), torch.ones(()), numbered(0, 3)]
    for x in (run.flag, run.batch, *tensors):
        count = x.numel()
        for call in (x.reshape, x.view):
            assert (error_of(lambda call=call: call(())) == "") == (count == 1)
            for a, b in product(range(4), range(8)):
                said = error_of(lambda call=call, a=a, b=b: call(a, b))
                assert (said == invalid(count, a, b)) == (a * b != count)
                said = error_of(lambda call=call, b=b: call(-1, b))
                divides = (b and count % b == 0) or b == count == 0
                assert (said == invalid(count, -1, b)) == (not divides)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("reshape(3, 5, 6)", "reshape(3, 4, 6)"),
        ("reshape(3, 5, 6)", "reshape(3, -5, 6)"),
        ("reshape(-1, 5)", "reshape(-1, 6)"),
        ("reshape(-1, 5)", "reshape(-1, -1)"),
    ],
)
def test_sizes_must_multiply_up__but_not_with_other_sizes(
    snippet, old, new, fails
):
    fails(test_sizes_must_multiply_up, snippet.edit(old, new))


def test_a_wrong_size_splits_samples(snippet):
    with no_error():
        run = snippet.after("wrong-rows")

    assert len(run.batch) == 1
    assert run.halves.shape == (2, 36)
    assert read(run.halves) == read(run.batch)
    for n in (1, 2, 5):
        for x in several(n, 3, 4, 6):
            assert x.reshape(-1, 36).shape == (2 * n, 36)


@pytest.mark.parametrize("sizes", ["len(batch), -1", "-1, 72", "-1, 24"])
def test_a_wrong_size_splits_samples__but_not_with_other_sizes(
    snippet, sizes, fails
):
    edited = snippet.edit("reshape(-1, 36)", f"reshape({sizes})")
    fails(test_a_wrong_size_splits_samples, edited)


def multiplied(*sizes):
    """Return how PyTorch refuses to multiply two matrices."""
    a, b, c, d = sizes
    return f"mat1 and mat2 shapes cannot be multiplied ({a}x{b} and {c}x{d})"


def test_mat1_is_the_input(snippet):
    run = snippet.after("not-flattened")

    n, maps, height, width = run.model[0](run.batch).shape
    linear = run.model[1]
    outs = linear.in_features, linear.out_features
    assert unnamed(run.said) == multiplied(n * maps * height, width, *outs)
    for shape in (
        (4,),
        (5, 4),
        (2, 3, 4),
        (2, 3, 5, 4),
        (0, 4),
        (2, 3, 1, 5, 4),
    ):
        for bias, dtype in product(
            (True, False), (torch.float32, torch.float64)
        ):
            layer = nn.Linear(6, 2, bias=bias, dtype=dtype)
            for x in several(*shape, dtype=dtype):
                said = error_of(lambda x=x, layer=layer: layer(x))
                assert said == multiplied(prod(shape[:-1]), 4, 6, 2)
            assert layer(torch.ones(*shape[:-1], 6, dtype=dtype)) is not None


LINEAR = "3), nn.Linear(64, 2)"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LINEAR, "3), nn.Linear(4, 2)"),
        (LINEAR, "3), nn.Linear(64, 2).double()"),
        ("model(batch))\nprint", "model[0](batch) @ model[1].weight)\nprint"),
    ],
)
def test_mat1_is_the_input__but_not_otherwise(snippet, old, new, fails):
    fails(test_mat1_is_the_input, snippet.edit(old, new))


PRINTED = [
    ('print("a batch:   ", tuple(model(batch).shape))\n', ""),
    ('print("batched:   ", tuple(model(channels.unsqueeze(0)).shape))\n', ""),
]


def test_flatten_comes_before_linear(snippet):
    run = snippet.after("flattened")
    flat = []
    run.model[-1].register_forward_hook(
        lambda *those: flat.append(those[1][0])
    )

    assert run.model[-1].in_features == 8 * 2 * 4
    for n in (0, 1, 2, 5):
        with no_error():
            outputs = run.model(run.batch.repeat(n, 1, 1, 1))
        assert outputs.shape == (n, 2)
        assert flat[-1].shape == (n, 64)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.Flatten(), ", ""),
        ("nn.Flatten()", "nn.Flatten(0)"),
        ("nn.Flatten()", "nn.Flatten(2)"),
        ("nn.Flatten(), nn.Linear(64, 2)", "nn.Flatten(), nn.Linear(63, 2)"),
        ("nn.Flatten()", "nn.Unflatten(1, (8, 1))"),
    ],
)
def test_flatten_comes_before_linear__but_not_otherwise(
    snippet, old, new, fails
):
    fails(
        test_flatten_comes_before_linear, edited(snippet, (old, new), *PRINTED)
    )


def test_one_picture_needs_a_batch(snippet):
    run = snippet.after("flattened")

    assert run.channels.dim() == 3
    assert unnamed(run.unbatched) == multiplied(8, 8, 64, 2)
    assert run.model[:2](run.channels).shape == (8, 8)
    for picture in (run.channels, *several(3, 4, 6)):
        said = error_of(lambda picture=picture: run.model(picture))
        assert said == unnamed(run.unbatched)
        with no_error():
            assert run.model(picture.unsqueeze(0)).shape == (1, 2)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lambda: model(channels)", "lambda: model(batch)"),
        ("lambda: model(channels)", "lambda: model(channels.unsqueeze(0))"),
        ("nn.Flatten()", "nn.Flatten(-3)"),
    ],
)
def test_one_picture_needs_a_batch__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_one_picture_needs_a_batch, snippet.edit(old, new))


def lost(layer, shape):
    """Return how a convolution refuses an input for its channels."""
    sizes = [*shape] if len(shape) == 4 else [1, *shape]
    return (
        f"Given groups=1, weight of size {[*layer.weight.shape]}, expected "
        f"input{sizes} to have {layer.in_channels} channels, "
        f"but got {shape[-3]} channels instead"
    )


def test_channels_stand_third_from_the_end(snippet):
    run = snippet.after("channels-elsewhere")

    assert run.missed == lost(nn.Conv2d(3, 8, 3), run.flag.shape)
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    for size, bias, dtype in product((1, 2, 3), (True, False), dtypes):
        layer = nn.Conv2d(size, 5, 2, bias=bias, dtype=dtype)
        for shape in ((1, 4, 6, 3), (2, 3, 2, 4), (0, 4, 6, 3), (4, 6, 3)):
            for x in (*several(*shape, dtype=dtype), numbered(2, 3, 3)):
                x = x.to(dtype)
                fits = x.shape[-3] == size
                said = error_of(lambda x=x, layer=layer: layer(x))
                assert said == ("" if fits else lost(layer, x.shape))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("conv(flag)", "conv(batch)"),
        ("conv(flag)", "conv(channels)"),
        ("conv(flag)", "conv(flag.double())"),
        ("conv(flag)", "conv(flag[None, None])"),
        ("conv = nn.Conv2d(3, 8, 3)\n", "conv = nn.Conv2d(4, 8, 3)\n"),
        (
            "conv = nn.Conv2d(3, 8, 3)\n",
            "conv = nn.Conv2d(3, 9, 3, groups=3)\n",
        ),
    ],
)
def test_channels_stand_third_from_the_end__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_channels_stand_third_from_the_end, snippet.edit(old, new))


def rgb_of(name, images, n, colour, row, column):
    """Return the number that a colour of a pixel should have."""
    places = {
        "gray (N, 1, H, W)": (n, 0, row, column),
        "gray (N, H, W)": (n, row, column),
        "RGBA (N, 4, H, W)": (n, colour, row, column),
        "RGB (N, H, W, 3)": (n, row, column, colour),
    }
    return images[places[name]].item()


@pytest.mark.parametrize("n", [0, 1, 3], ids="{} pictures".format)
@pytest.mark.parametrize(
    ("name", "tail"),
    [
        ("gray (N, 1, H, W)", (1, 4, 5)),
        ("gray (N, H, W)", (4, 5)),
        ("RGBA (N, 4, H, W)", (4, 4, 5)),
        ("RGB (N, H, W, 3)", (4, 5, 3)),
    ],
)
def test_four_ways_to_three_channels(snippet, name, tail, n):
    run = snippet.after("three-channels")

    conv = nn.Conv2d(3, 2, 3)
    for dtype in (torch.float32, torch.float64, torch.uint8):
        clear = numbered(n, *tail, dtype=dtype)
        clear[:, -1] = 0  # an alpha of 0, where there is one
        for images in (*several(n, *tail, dtype=dtype), clear):
            before = images.clone()
            with no_error():
                found = run.to_rgb[name](images)
            assert found.shape == (n, 3, 4, 5)
            assert found.dtype == dtype
            assert torch.equal(images, before)
            for at in product(range(n), range(3), range(4), range(5)):
                assert found[at].item() == rgb_of(name, images, *at)
            assert conv(found.float()).shape == (n, 2, 2, 3)


@pytest.mark.parametrize(
    ("name", "tail", "old", "new"),
    [
        (
            "gray (N, 1, H, W)",
            (1, 4, 5),
            "images.expand(-1, 3, -1, -1)",
            "images",
        ),
        ("gray (N, H, W)", (4, 5), "images[:, None]", "images.mT[:, None]"),
        ("RGBA (N, 4, H, W)", (4, 4, 5), "images[:, :3]", "images[:, 1:]"),
        (
            "RGB (N, H, W, 3)",
            (4, 5, 3),
            "images.permute(0, 3, 1, 2)",
            "images.permute(0, 3, 2, 1)",
        ),
    ],
    ids=["one channel", "transposed", "without red", "rows for columns"],
)
def test_four_ways_to_three_channels__but_not_otherwise(
    snippet, name, tail, old, new, fails
):
    edited = snippet.edit(old, new)
    fails(test_four_ways_to_three_channels, edited, name, tail, 3)


def test_four_ways_to_three_channels__ends_for_a_single_picture(
    snippet, fails
):
    first = "RGB (N, H, W, 3)"
    fails(test_four_ways_to_three_channels, snippet, first, (4, 3), 5)


def test_squeeze_takes_the_batch_too(snippet):
    run = snippet.after("squeezed")

    assert run.scores.shape == (1, 1)
    assert run.squeezed.shape == ()
    assert run.looped == "iteration over a 0-d tensor"
    for dtype in DTYPES:
        for n in (2, 3, 7):
            for x in several(n, 1, dtype=dtype):
                assert x.squeeze().shape == (n,)
                assert list(x.squeeze()) == read(x)
        for shape in ((1,), (1, 1), (1, 1, 1)):
            for x in several(*shape, dtype=dtype):
                assert x.squeeze().shape == ()
                with pytest.raises(TypeError, match="iteration over a 0-d"):
                    list(x.squeeze())
        for x in several(1, 2, 1, 3, 1, dtype=dtype):
            assert x.squeeze().shape == (2, 3)


def test_squeeze_takes_the_batch_too__but_not_with_a_dimension(snippet, fails):
    edit = snippet.edit("= scores.squeeze()", "= scores.squeeze(1)")
    fails(test_squeeze_takes_the_batch_too, edit)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(rows)  # one", "(rows.repeat(2, 1))  # one"),
        ("list(squeezed)", "list(squeezed.unsqueeze(0))"),
    ],
)
def test_squeeze_takes_the_batch_too__but_not_of_two_nor_if_put_back(
    snippet, old, new, fails
):
    fails(test_squeeze_takes_the_batch_too, snippet.edit(old, new))


def test_squeeze_one_dimension(snippet):
    run = snippet.after("squeezed-with-a-dimension")

    assert set(run.one_each) == {1, 3}
    for n, each in run.one_each.items():
        assert each.shape == (n,)
        assert read(each) == n * read(run.scores)
    for dtype in DTYPES:
        for n in (0, 1, 2, 7):
            for x in several(n, 1, dtype=dtype):
                assert x.squeeze(1).shape == (n,)
                assert read(x.squeeze(1)) == read(x)
            for x in several(n, 2, dtype=dtype):
                assert x.squeeze(1).equal(x)


@pytest.mark.parametrize("call", ["squeeze()", "squeeze((0, 1))", "mT"])
def test_squeeze_one_dimension__but_not_otherwise(snippet, call, fails):
    edited = snippet.edit("(n, 1).squeeze(1)", f"(n, 1).{call}")
    fails(test_squeeze_one_dimension, edited)


def test_squeeze_one_dimension__but_not_of_two_scores(snippet, fails):
    edited = snippet.edit("nn.Linear(72, 1)", "nn.Linear(72, 2)").edit(
        "looped = refusal(lambda: list(squeezed))", "looped = None"
    )
    fails(test_squeeze_one_dimension, edited)


# Where it ends


BATCHES = [
    (2, 3, 4, 6),
    (1, 3, 4, 6),
    (2, 1, 4, 6),
    (2, 3, 1, 1),
    (1, 1, 1, 1),
]
BATCHES += [(1, 3, 1, 1), (3, 2, 1, 5), (3, 2, 5, 1), (2, 1, 1, 1)]


def test_channels_last_changes_strides_only(snippet):
    run = snippet.after("channels-last")
    pairs = [(run.photos, run.last)]
    empty = [(0, 3, 4, 6), (2, 0, 4, 6), (2, 3, 0, 6)]
    for shape, dtype in product(BATCHES + empty, DTYPES):
        x = numbered(*shape, dtype=dtype)
        pairs.append((x, x.to(memory_format=LAST)))

    for x, last in pairs:
        _, channels, height, width = x.shape
        area = width * channels
        assert x.is_contiguous()
        assert last.equal(x)
        assert last.stride() == (height * area, 1, area, channels)
        assert last.is_contiguous(memory_format=LAST)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("photos.to(memory_format=torch.channels_last)", "photos"),
        ("photos.to(memory", "photos.add(1).to(memory"),
        ("photos.to(memory", "photos.permute(0, 2, 3, 1).to(memory"),
        ("reshape(2, 3, 4, 6)", "reshape(2, 4, 6, 3).mT"),
    ],
)
def test_channels_last_changes_strides_only__but_not_otherwise(
    snippet, old, new, fails
):
    edit = edited(snippet, (old, new), ("maps = conv(last)", "maps = last"))
    fails(test_channels_last_changes_strides_only, edit)


def test_permuted_pictures_are_channels_last(snippet):
    run = snippet.after("channels-last")
    pairs = [(run.flag, run.flags)]
    for (n, c, h, w), dtype in product(BATCHES, DTYPES):
        x = numbered(n, h, w, c, dtype=dtype)
        pairs.append((x, x.permute(0, 3, 1, 2)))

    for x, permuted in pairs:
        _, c, h, w = permuted.shape
        assert permuted.stride() == (h * w * c, 1, w * c, c)
        assert permuted[:, 0].equal(x[..., 0].reshape(-1, h, w))
        assert permuted.is_contiguous(memory_format=LAST)
        assert memory(permuted) == memory(x)
    assert run.flags.shape == (1, 3, 4, 6)


@pytest.mark.parametrize(
    "call",
    [
        "permute(2, 0, 1).unsqueeze(0)",
        "reshape(1, 3, 4, 6)",
        "unsqueeze(0)[:, :, :0].permute(0, 3, 1, 2)",
        "unsqueeze(0).permute(0, 3, 1, 2).contiguous()",
        "unsqueeze(0).permute(0, 3, 1, 2).clone()",
        "mT.contiguous().mT.unsqueeze(0).permute(0, 3, 1, 2)",
    ],
)
def test_permuted_pictures_are_channels_last__but_not_otherwise(
    snippet, call, fails
):
    edited = snippet.edit(
        "= flag.unsqueeze(0).permute(0, 3, 1, 2)", f"= flag.{call}"
    )
    fails(test_permuted_pictures_are_channels_last, edited)


def test_convolutions_keep_channels_last(snippet):
    run = snippet.after("channels-last")

    assert run.last.is_contiguous(memory_format=LAST)
    assert run.maps.is_contiguous(memory_format=LAST)
    assert run.maps.shape == (2, 8, 2, 4)
    assert run.conv.weight.is_contiguous(memory_format=LAST)
    dtypes = (torch.float32, torch.float64, torch.bfloat16)
    kernels = (1, 2, 3, (1, 3))
    for size, kernel, dtype in product((1, 2, 3), kernels, dtypes):
        layer = nn.Conv2d(size, 6, kernel, dtype=dtype)
        shapes = ((1, size, 7, 9), (2, size, 7, 9))
        inputs = [x for each in shapes for x in several(*each, dtype=dtype)]
        picture = numbered(7, 9, size, dtype=dtype)
        inputs.append(picture.permute(2, 0, 1).unsqueeze(0))
        for x in inputs:
            last = x.to(memory_format=LAST)
            for each in (layer, layer.to(memory_format=LAST)):
                assert each(last).is_contiguous(memory_format=LAST)


@pytest.mark.parametrize(
    ("inputs", "maps"),
    [
        ("torch.arange(144.0).reshape(2, 3, 4, 6)", "conv(photos)"),
        ("torch.arange(144.0).reshape(2, 3, 4, 6)", "conv(batch)"),
        ("torch.arange(144.0).reshape(2, 3, 4, 6)", "conv(last).contiguous()"),
        ("torch.ones(0, 3, 4, 6)", "conv(last)"),
    ],
)
def test_convolutions_keep_channels_last__but_not_otherwise(
    snippet, inputs, maps, fails
):
    edit = edited(
        snippet,
        ("3).to(memory_format=torch.channels_last)", "3)"),
        ("torch.arange(144.0).reshape(2, 3, 4, 6)", inputs),
        ("maps = conv(last)", f"maps = {maps}"),
    )
    fails(test_convolutions_keep_channels_last, edit)


def test_channels_last_refuses_view(snippet):
    run = snippet.after("channels-last")
    pairs = [(run.photos, run.last)]
    for shape, dtype in product(BATCHES, DTYPES):
        if shape[1] > 1 and prod(shape[2:]) > 1:
            x = numbered(*shape, dtype=dtype)
            pairs.append((x, x.to(memory_format=LAST)))

    for x, last in pairs:
        said = error_of(lambda last=last: last.view(len(last), -1))
        assert said.startswith(VIEW_REFUSED)
        assert last.flatten(1).equal(x.view(len(x), -1))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("arange(144.0).reshape(2, 3, 4, 6)", "ones(2, 1, 4, 6)"),
        ("arange(144.0).reshape(2, 3, 4, 6)", "ones(2, 3, 1, 1)"),
        ("arange(144.0).reshape(2, 3, 4, 6)", "ones(0, 3, 4, 6)"),
        ("= photos.to(memory_format=torch.channels_last)", "= photos"),
        ("photos.to(memory", "photos.flip(1).to(memory"),
    ],
)
def test_channels_last_refuses_view__but_not_otherwise(
    snippet, old, new, fails
):
    edit = edited(snippet, (old, new), ("maps = conv(last)", "maps = last"))
    fails(test_channels_last_refuses_view, edit)


def test_t_is_for_matrices(snippet, always=False):
    run = snippet.after("t-warns")

    assert run.turned[0].equal(run.grey.transpose(0, 1))
    assert run.turned[1].equal(run.channels.permute(2, 1, 0))
    said = [str(each.message) for each in run.caught]
    assert len(said) == 1
    assert "is deprecated" in said[0]
    with warnings.catch_warnings(record=True, action="always") as none:
        for x in (*several(2, 3), *several(1, 4), numbered(0, 2)):
            assert x.T.equal(x.transpose(0, 1))
    assert not none
    shapes = (3,), (2, 3, 4), (2, 3, 4, 5)
    others = [x for shape in shapes for x in several(*shape)]
    for x in others:
        with pytest.warns(UserWarning, match="is deprecated") as again:
            assert x.T.equal(x.permute(*reversed(range(x.dim()))))
        assert str(again[0].message) == said[0]
    torch.set_warn_always(always)  # False is PyTorch's own default
    with warnings.catch_warnings(record=True, action="always") as by_default:
        for x in others:
            assert x.T.dim() == x.dim()
    assert len(by_default) <= 1


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("channels.T]", "channels.permute(2, 1, 0)]"),
        ("channels.T]", "channels.mT]"),
        ("channels.T]", "channels.flip(0).T]"),
        ("grey.T,", "grey,"),
        ("grey.T,", "grey.reshape(3, 2),"),
        ("grey.T,", "grey.unsqueeze(0).T[..., 0],"),
    ],
)
def test_t_is_for_matrices__but_not_otherwise(snippet, old, new, fails):
    printed = 'print(str(caught[0].message).partition(" (Triggered")[0])'
    edit = edited(snippet, (old, new), (printed, ""))
    fails(test_t_is_for_matrices, edit)


def test_t_is_for_matrices__but_warns_each_time_with_set_warn_always(
    snippet, fails
):
    fails(test_t_is_for_matrices, snippet, True)
