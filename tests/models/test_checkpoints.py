"""The claims of docs/models/checkpoints.md."""

import pickle

import pytest
import torch

SAME = "same as uninterrupted"


def test_resuming_everything_equals_not_stopping(snippet):
    assert snippet.after("compare").rows["everything"][SAME]


@pytest.mark.parametrize("name", ["model", "optimizer", "scheduler"])
def test_resuming_everything_equals_not_stopping__but_not_without(
    snippet, name, fails
):
    place = ["model", "optimizer", "scheduler"].index(name)
    edited = snippet.edit(
        f"{name}.state_dict(),", f"start()[{place}].state_dict(),"
    )
    fails(test_resuming_everything_equals_not_stopping, edited)


def test_every_part_is_needed(snippet):
    rows = snippet.after("compare").rows

    for part in ("optimizer", "scheduler", "random state"):
        assert not rows[f"without the {part}"][SAME]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "torch.optim.Adam(model.parameters(), lr=0.05)",
            "torch.optim.SGD(model.parameters(), lr=0.05)",
        ),
        ("nn.Dropout(0.2)", "nn.Identity()"),
        ("gamma=0.5", "gamma=1.0"),
    ],
)
def test_every_part_is_needed__but_only_by_what_uses_it(
    snippet, old, new, fails
):
    edited = snippet.edit(old, new)
    if "Adam" in old:  # the learning rate stands in the optimizer's state
        edited = edited.edit("gamma=0.5", "gamma=1.0")
    fails(test_every_part_is_needed, edited)


def test_the_model_alone_is_not_enough(snippet):
    assert not snippet.after("compare").rows["the model only"][SAME]


def test_the_model_alone_is_not_enough__but_is_with_plain_sgd(snippet, fails):
    edited = (
        snippet.edit("torch.optim.Adam(", "torch.optim.SGD(")
        .edit("nn.Dropout(0.2)", "nn.Identity()")
        .edit("gamma=0.5", "gamma=1.0")
    )
    fails(test_the_model_alone_is_not_enough, edited)


def test_load_refuses_a_whole_model(snippet):
    run = snippet.after("whole-model")

    run.file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="Weights only load fail"):
        torch.load(run.file)
    run.file.seek(0)
    loaded = torch.load(run.file, weights_only=False)
    assert torch.equal(loaded[0].weight, run.model[0].weight)


def test_load_refuses_a_whole_model__but_not_its_state(snippet, fails):
    edited = snippet.edit(
        "torch.save(model, file)", "torch.save(model.state_dict(), file)"
    )
    fails(test_load_refuses_a_whole_model, edited)


def test_load_refuses_numpy_numbers(snippet, capsys):
    snippet.after("plain")

    refused, taken = capsys.readouterr().out.splitlines()[-2:]
    assert refused == "UnpicklingError"
    assert taken == "{'loss': 0.5, 'epochs': [1, 2]}"


def test_load_refuses_numpy_numbers__but_takes_pythons(snippet, capsys, fails):
    edited = snippet.edit('{"loss": np.float64(0.5)}', '{"loss": 0.5}')
    fails(test_load_refuses_numpy_numbers, edited, capsys)


def test_map_location_decides(snippet, capsys):
    run = snippet.after("map")

    assert capsys.readouterr().out.endswith("meta\n")
    run.file.seek(0)
    assert torch.load(run.file)["weight"].device.type == "cpu"


def test_map_location_decides__but_not_if_left_out(snippet, capsys, fails):
    edited = snippet.edit(
        'torch.load(file, map_location="meta")', "torch.load(file)"
    )
    fails(test_map_location_decides, edited, capsys)


def test_views_save_their_storage(snippet):
    run = snippet.after("view")

    assert run.row > 0.99 * run.whole
    assert run.own_row < 0.01 * run.whole


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("size(large[0]),", "size(large[0].clone()),"),
        ("size(large[0].clone())", "size(large[0])"),
    ],
)
def test_views_save_their_storage__but_not_the_other(snippet, old, new, fails):
    fails(test_views_save_their_storage, snippet.edit(old, new))


def test_del_frees_the_checkpoint(snippet, capsys):
    run = snippet.after("free")

    assert capsys.readouterr().out.endswith("False\nTrue\n")
    assert run.watch() is None
    assert run.target["weight"].tolist() == [1, 1, 1]


def test_del_frees_the_checkpoint__but_not_if_kept(snippet, capsys, fails):
    edited = snippet.edit("del loaded\n", "kept = loaded\ndel loaded\n")
    fails(test_del_frees_the_checkpoint, edited, capsys)


def test_a_scaler_keeps_its_scale(snippet):
    run = snippet.after("scaler")

    assert run.start_scale == 65_536
    assert run.resumed.get_scale() == 1024


def test_a_scaler_keeps_its_scale__but_not_unloaded(snippet, fails):
    edited = snippet.edit("resumed.load_state_dict(scaler.state_dict())\n", "")
    fails(test_a_scaler_keeps_its_scale, edited)


NEEDED = "safetensors is not installed"


def test_safetensors_gives_the_same_back(snippet):
    pytest.importorskip("safetensors", reason=NEEDED)
    run = snippet.after("safetensors")

    state = run.model.state_dict()
    assert run.tensors.keys() == state.keys()
    assert all(torch.equal(run.tensors[name], state[name]) for name in state)


def test_safetensors_gives_the_same_back__but_not_of_another(snippet, fails):
    pytest.importorskip("safetensors", reason=NEEDED)
    edited = snippet.edit(
        "save(model.state_dict())", "save(start()[0].state_dict())"
    )
    fails(test_safetensors_gives_the_same_back, edited)


def test_safetensors_takes_tensors_only(snippet, capsys):
    pytest.importorskip("safetensors", reason=NEEDED)
    snippet.after("safetensors-refuses")

    assert "Key `loss` is invalid, expected torch" in capsys.readouterr().out


def test_safetensors_takes_tensors_only__so_make_it_one(
    snippet, capsys, fails
):
    pytest.importorskip("safetensors", reason=NEEDED)
    edited = snippet.edit('{"loss": 0.5}', '{"loss": torch.tensor(0.5)}')
    fails(test_safetensors_takes_tensors_only, edited, capsys)


def test_safetensors_refuses_shared_memory(snippet, capsys):
    pytest.importorskip("safetensors", reason=NEEDED)
    snippet.after("safetensors-refuses")

    assert "Some tensors share memory" in capsys.readouterr().out


def test_safetensors_refuses_shared_memory__but_not_clones(
    snippet, capsys, fails
):
    pytest.importorskip("safetensors", reason=NEEDED)
    edited = snippet.edit('"second": shared', '"second": shared.clone()')
    fails(test_safetensors_refuses_shared_memory, edited, capsys)
