"""The claims of docs/tensors/from_arrays.md."""

import pytest
import torch

from extensions.files.failures import no_error

ARRAY, TENSOR, LIST = "a NumPy array", "a tensor", "a list"


def test_three_calls_share_an_array(snippet):
    rows = snippet.after("try").rows

    for name in ("from_numpy", "as_tensor", "asarray"):
        assert rows[name][ARRAY] == "shares"


@pytest.mark.parametrize("name", ["from_numpy", "as_tensor", "asarray"])
def test_three_calls_share_an_array__but_not_a_clone(snippet, name, fails):
    edited = snippet.edit(
        f": torch.{name},", f": lambda source: torch.{name}(source).clone(),"
    )
    fails(test_three_calls_share_an_array, edited)


def test_two_calls_share_a_tensor(snippet):
    rows = snippet.after("try").rows

    assert rows["as_tensor"][TENSOR] == rows["asarray"][TENSOR] == "shares"


@pytest.mark.parametrize("name", ["as_tensor", "asarray"])
def test_two_calls_share_a_tensor__but_not_a_clone(snippet, name, fails):
    edited = snippet.edit(
        f": torch.{name},", f": lambda source: torch.{name}(source).clone(),"
    )
    fails(test_two_calls_share_a_tensor, edited)


def test_from_numpy_takes_arrays_only(snippet):
    rows = snippet.after("try").rows

    assert rows["from_numpy"][TENSOR] == rows["from_numpy"][LIST] == "error"


def test_from_numpy_takes_arrays_only__but_as_tensor_more(snippet, fails):
    edited = snippet.edit(": torch.from_numpy,", ": torch.as_tensor,")
    fails(test_from_numpy_takes_arrays_only, edited)


def test_tensor_copies(snippet):
    rows = snippet.after("try").rows

    assert rows["tensor"][ARRAY] == "copies"


def test_tensor_copies__but_as_tensor_does_not(snippet, fails):
    edited = snippet.edit(
        "else torch.tensor(source)", "else torch.as_tensor(source)"
    )
    fails(test_tensor_copies, edited)


def test_a_list_is_copied(snippet):
    rows = snippet.after("try").rows

    assert rows["as_tensor"][LIST] == rows["tensor"][LIST] == "copies"


def test_a_list_is_copied__but_an_array_is_not(snippet, fails):
    edited = snippet.edit('"a list": [1.0, 2.0, 3.0]', '"a list": array')
    fails(test_a_list_is_copied, edited)


def test_another_type_copies(snippet):
    run = snippet.after("convert")

    assert run.array[0] == 100
    assert run.single[0] == 1


def test_another_type_copies__but_the_same_type_does_not(snippet, fails):
    edited = snippet.edit("dtype=torch.float32", "dtype=torch.float64")
    fails(test_another_type_copies, edited)


def test_writing_to_the_tensor_writes_to_the_array(snippet):
    assert snippet.after("both-ways").array[1] == -1


def test_writing_to_the_tensor_writes_to_the_array__but_not_to_a_copy(
    snippet, fails
):
    edited = snippet.edit(
        "shared = torch.from_numpy(array)", "shared = torch.tensor(array)"
    )
    fails(test_writing_to_the_tensor_writes_to_the_array, edited)


def test_a_reused_buffer_shows_its_last_content(snippet):
    run = snippet.after("buffer")

    assert [each.tolist() for each in run.shared_batches] == [[2, 2]] * 3
    assert [each[0].item() for each in run.copied_batches] == [0, 1, 2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.from_numpy(buffer)", "torch.tensor(buffer)"),
        ("torch.tensor(buffer)", "torch.from_numpy(buffer)"),
        ("    buffer[:] = step", "    buffer = np.full(2, float(step))"),
    ],
)
def test_a_reused_buffer_shows_its_last_content__but_not(
    snippet, old, new, fails
):
    fails(test_a_reused_buffer_shows_its_last_content, snippet.edit(old, new))


def test_read_only_arrays_are_written_to(snippet):
    run = snippet.after("read-only")

    assert not run.constant.flags.writeable
    assert run.constant[0] == 9
    said = [str(each.message) for each in run.caught]
    assert any("not writable" in each for each in said)


def test_read_only_arrays_are_written_to__but_not_through_a_copy(
    snippet, fails
):
    edited = snippet.edit(
        "torch.from_numpy(constant)[0]", "torch.tensor(constant)[0]"
    )
    fails(test_read_only_arrays_are_written_to, edited)


def test_a_layer_refuses_float64(snippet):
    run = snippet.after("double")

    with pytest.raises(RuntimeError, match="must have the same dtype"):
        run.layer(torch.from_numpy(run.array))
    assert run.layer(torch.from_numpy(run.array).float()).shape == (1,)


def test_a_layer_refuses_float64__but_not_of_a_float32_array(snippet, fails):
    edited = snippet.edit(
        "np.array([1.0, 2.0, 3.0])", "np.array([1, 2, 3], dtype=np.float32)"
    )
    fails(test_a_layer_refuses_float64, edited)


def test_three_arrays_are_refused(snippet, capsys):
    snippet.after("refused")

    said = capsys.readouterr().out.splitlines()[-3:]
    assert "stride" in said[0]
    assert "byte order different" in said[1]
    assert "numpy.str_" in said[2] or "can't convert np" in said[2]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"reversed": array[::-1]', '"reversed": array[::1]'),
        ('"other byte order": array.astype(">f8")', '"x": array.astype("f8")'),
        ('np.array(["a", "b"])', "np.array([1, 2])"),
    ],
)
def test_three_arrays_are_refused__but_not_their_like(
    snippet, capsys, old, new, fails
):
    fails(test_three_arrays_are_refused, snippet.edit(old, new), capsys)


def test_a_copy_mends_a_reversed_array(snippet):
    with no_error():
        run = snippet.after("mended")

    assert torch.from_numpy(run.reversed_array).tolist() == [3, -1, 100]
    assert torch.from_numpy(run.native).tolist() == [100, -1, 3]


def test_a_copy_mends_a_reversed_array__but_the_array_itself_does_not(
    snippet, fails
):
    edited = snippet.edit("array[::-1].copy()", "array[::-1]")
    fails(test_a_copy_mends_a_reversed_array, edited)


def test_a_list_of_arrays_warns(snippet):
    run = snippet.after("list-of-arrays")

    said = [str(each.message) for each in run.caught]
    assert any("extremely slow" in each for each in said)


def test_a_list_of_arrays_warns__but_one_array_does_not(snippet, fails):
    edited = snippet.edit(
        "slow = torch.tensor(many)", "slow = torch.tensor(np.stack(many))"
    )
    fails(test_a_list_of_arrays_warns, edited)


def test_stacking_gives_the_same(snippet, capsys):
    run = snippet.after("list-of-arrays")

    assert capsys.readouterr().out.endswith("True\n")
    stacked = torch.from_numpy(run.np.stack(run.many))
    assert torch.equal(run.slow, stacked)


def test_stacking_gives_the_same__but_not_of_other_arrays(
    snippet, capsys, fails
):
    edited = snippet.edit("np.stack(many)", "np.stack(many) + 1")
    fails(test_stacking_gives_the_same, edited, capsys)


def test_numpy_shares_the_tensor(snippet):
    assert snippet.after("back").as_array.tolist() == [2, 2]


def test_numpy_shares_the_tensor__but_not_a_new_one(snippet, fails):
    edited = snippet.edit("tensor += 1", "tensor = tensor + 1")
    fails(test_numpy_shares_the_tensor, edited)


def test_numpy_refuses_gradients(snippet):
    run = snippet.after("back-with-gradients")

    with pytest.raises(RuntimeError, match="Can't call numpy"):
        run.weight.numpy()
    assert run.weight.detach().numpy().tolist() == [1, 1]


def test_numpy_refuses_gradients__but_takes_what_requires_none(snippet, fails):
    edited = snippet.edit("torch.ones(2, requires_grad=True)", "torch.ones(2)")
    fails(test_numpy_refuses_gradients, edited)
