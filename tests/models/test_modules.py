"""The claims of docs/models/modules.md."""

import pytest
import torch


def test_assigned_parts_are_registered(snippet):
    run = snippet.after("registered")

    parameters = {name for name, _ in run.model.named_parameters()}
    assert parameters == {"scale", "linear.weight", "linear.bias"}
    assert [name for name, _ in run.model.named_buffers()] == ["mean"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("nn.Parameter(torch.ones(3))", "torch.ones(3)"),
        ('self.register_buffer("mean", torch.zeros(3))', "self.mean = 0"),
    ],
)
def test_assigned_parts_are_registered__but_not_others(
    snippet, old, new, fails
):
    fails(test_assigned_parts_are_registered, snippet.edit(old, new))


def test_state_dict_holds_both(snippet):
    run = snippet.after("state")

    names = {"scale", "mean", "linear.weight", "linear.bias"}
    assert set(run.model.state_dict()) == names


def test_state_dict_holds_both__but_not_a_passing_buffer(snippet, fails):
    edited = snippet.edit(
        '("mean", torch.zeros(3))',
        '("mean", torch.zeros(3), persistent=False)',
    )
    fails(test_state_dict_holds_both, edited)


def test_buffers_are_not_trained(snippet):
    moved = snippet.after("learn").moved

    assert not moved.pop("mean")
    assert len(moved) == 3
    assert all(moved.values())


def test_buffers_are_not_trained__but_parameters_are(snippet, fails):
    edited = snippet.edit(
        'self.register_buffer("mean", torch.zeros(3))',
        "self.mean = nn.Parameter(torch.zeros(3))",
    )
    fails(test_buffers_are_not_trained, edited)


def test_lists_and_tensors_are_invisible(snippet):
    run = snippet.after("invisible")

    assert list(run.hidden.parameters()) == []
    assert not run.hidden.state_dict()


def test_lists_and_tensors_are_invisible__but_not_a_modulelist(snippet, fails):
    edited = snippet.edit(
        "self.layers = [nn.Linear(3, 3), nn.Linear(3, 1)]",
        "self.layers = nn.ModuleList([nn.Linear(3, 3)])",
    )
    fails(test_lists_and_tensors_are_invisible, edited)


def test_modulelist_and_buffer_are_visible(snippet):
    run = snippet.after("visible")

    parts = ("weight", "bias")
    names = {f"layers.{i}.{part}" for i in (0, 1) for part in parts}
    assert set(run.visible.state_dict()) == {"offset", *names}


def test_modulelist_and_buffer_are_visible__but_not_a_list(snippet, fails):
    edited = snippet.edit(
        "nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 1)])",
        "[nn.Linear(3, 3)]",
    )
    fails(test_modulelist_and_buffer_are_visible, edited)


def test_conversions_follow_registration(snippet):
    run = snippet.after("follow")

    assert run.visible.layers[0].weight.dtype == torch.float64
    assert run.visible.offset.dtype == torch.float64
    assert run.hidden.layers[0].weight.dtype == torch.float32
    assert run.hidden.offset.dtype == torch.float32


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("visible.double()\n", ""),
        ("hidden.double()\n", "hidden.offset = hidden.offset.double()\n"),
    ],
)
def test_conversions_follow_registration__but_only_that(
    snippet, old, new, fails
):
    fails(test_conversions_follow_registration, snippet.edit(old, new))


def test_conversions_follow_registration__but_not_of_integers(snippet, fails):
    edited = snippet.edit(
        '"offset", torch.zeros(3)', '"offset", torch.zeros(3).int()'
    )
    fails(test_conversions_follow_registration, edited)


def test_super_comes_first(snippet, capsys):
    snippet.after("no-super")

    said = "cannot assign module before Module.__init__() call\n"
    assert capsys.readouterr().out.endswith(said)


def test_super_comes_first__and_mends_it(snippet, capsys, fails):
    edited = snippet.edit(
        "def __init__(self):\n        self.linear = nn.Linear(3, 1)\n\n\ntry",
        "def __init__(self):\n        super().__init__()\n\n\ntry",
    )
    fails(test_super_comes_first, edited, capsys)


def test_forward_skips_hooks(snippet):
    assert snippet.after("call").calls == ["hook"]


def test_forward_skips_hooks__but_a_second_call_does_not(snippet, fails):
    edited = snippet.edit("model.forward(torch", "model(torch")
    fails(test_forward_skips_hooks, edited)


def test_loading_copies_the_state(snippet):
    run = snippet.after("load")

    for mine, theirs in zip(
        run.other.parameters(), run.model.parameters(), strict=True
    ):
        assert torch.equal(mine, theirs)
        assert mine.data_ptr() != theirs.data_ptr()


def test_loading_copies_the_state__but_not_without_the_call(snippet, fails):
    edited = snippet.edit("other.load_state_dict(model.state_dict())", "None")
    fails(test_loading_copies_the_state, edited)


def test_loading_copies_the_state__but_not_if_assigned(snippet, fails):
    edited = snippet.edit(
        "other.load_state_dict(model.state_dict())",
        "other.load_state_dict(model.state_dict(), assign=True)",
    )
    fails(test_loading_copies_the_state, edited)


def test_loading_names_what_is_wrong(snippet, capsys):
    snippet.after("load-wrong")

    said = capsys.readouterr().out
    assert 'Missing key(s) in state_dict: "mean"' in said
    assert 'Unexpected key(s) in state_dict: "extra"' in said


@pytest.mark.parametrize(
    "line", ['del state["mean"]\n', 'state["extra"] = torch.zeros(1)\n']
)
def test_loading_names_what_is_wrong__but_nothing_else(
    snippet, capsys, line, fails
):
    fails(test_loading_names_what_is_wrong, snippet.edit(line, ""), capsys)


def test_loading_names_what_is_wrong__but_not_unless_strict(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "Model().load_state_dict(state)",
        "Model().load_state_dict(state, strict=False)",
    )
    fails(test_loading_names_what_is_wrong, edited, capsys)


def test_state_dict_is_no_copy(snippet):
    run = snippet.after("alias")

    assert run.snapshot["scale"].tolist() == [5, 5, 5]
    assert run.copied["scale"].tolist() != [5, 5, 5]


def test_state_dict_is_no_copy__but_a_deep_copy_is(snippet, fails):
    edited = snippet.edit(
        "snapshot = model.state_dict()",
        "import copy\n\nsnapshot = copy.deepcopy(model.state_dict())",
    )
    fails(test_state_dict_is_no_copy, edited)


def test_state_dict_is_no_copy__but_left_behind_by_a_conversion(
    snippet, fails
):
    edited = snippet.edit(
        "with torch.no_grad():\n    model.scale.fill_(5)",
        "model.double()\nwith torch.no_grad():\n    model.scale.fill_(5)",
    )
    fails(test_state_dict_is_no_copy, edited)


def test_shared_layers_count_once(snippet):
    run = snippet.after("shared")

    assert len(list(run.tied.parameters())) == 2
    assert len(run.tied.state_dict()) == 4


def test_shared_layers_count_once__but_not_two_layers(snippet, fails):
    edited = snippet.edit(
        "self.second = self.first", "self.second = nn.Linear(2, 2)"
    )
    fails(test_shared_layers_count_once, edited)
