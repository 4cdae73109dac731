"""The claims of docs/autograd/gradients.md."""

import pytest
import torch


def test_tensors_require_no_grad_by_default(snippet):
    run = snippet.after("ask")

    assert not run.x.requires_grad
    assert run.w.requires_grad


def test_tensors_require_no_grad_by_default__but_do_when_asked(snippet):
    edited = snippet.edit(
        "x = torch.tensor(3.0)", "x = torch.tensor(3.0, requires_grad=True)"
    )
    with pytest.raises(AssertionError):
        test_tensors_require_no_grad_by_default(edited)


def test_integers_cannot_require_grad(snippet):
    run = snippet.after("whole-numbers")

    assert not hasattr(run, "counts")
    with pytest.raises(RuntimeError, match="Only Tensors of floating point"):
        torch.tensor([1, 2, 3], requires_grad=True)


def test_integers_cannot_require_grad__but_floats_can(snippet):
    with pytest.raises(AssertionError):
        test_integers_cannot_require_grad(
            snippet.edit("[1, 2, 3], requires", "[1.0, 2, 3], requires")
        )


def test_one_input_is_enough(snippet):
    run = snippet.after("compute")

    assert run.product.requires_grad
    assert not (run.x * run.target).requires_grad


def test_one_input_is_enough__but_none_is_not(snippet):
    edited = snippet.edit(
        "w = torch.tensor(2.0, requires_grad=True)", "w = torch.tensor(2.0)"
    )
    with pytest.raises(AssertionError):
        test_one_input_is_enough(edited)


def test_grad_fn_names_the_operation(snippet):
    run = snippet.after("history")

    assert run.product.grad_fn.name() == "MulBackward0"
    assert run.prediction.grad_fn.name() == "AddBackward0"
    assert run.loss.grad_fn.name() == "PowBackward0"


def test_grad_fn_names_the_operation__but_another_for_another(snippet):
    with pytest.raises(AssertionError):
        test_grad_fn_names_the_operation(
            snippet.edit("product + b", "product - b")
        )


def test_your_own_tensors_are_leaves(snippet):
    run = snippet.after("history")

    for own in (run.w, run.b, run.x, run.target):
        assert own.is_leaf
        assert own.grad_fn is None


def test_your_own_tensors_are_leaves__but_not_what_is_computed(snippet):
    edited = snippet.edit(
        "b = torch.tensor(1.0, requires_grad=True)", "b = w / 2"
    )
    with pytest.raises(AssertionError):
        test_your_own_tensors_are_leaves(edited)


def test_the_graph_ends_at_the_leaves(snippet):
    edges = snippet.after("collect").edges
    starts = {later for later, _ in edges}
    ends = {earlier for _, earlier in edges} - starts

    assert ends == {"AccumulateGrad: w", "AccumulateGrad: b"}


def test_the_graph_ends_at_the_leaves__but_not_at_what_is_cut(snippet):
    edited = snippet.edit("product + b", "product.detach() + b")
    with pytest.raises(AssertionError):
        test_the_graph_ends_at_the_leaves(edited)


def test_constants_are_not_in_the_graph(snippet):
    edges = snippet.after("collect").edges
    labels = {label for edge in edges for label in edge}

    assert len(labels) == 6
    assert not labels & {"AccumulateGrad: x", "AccumulateGrad: target"}


def test_constants_are_not_in_the_graph__but_are_once_they_ask(snippet):
    edited = snippet.edit(
        "x = torch.tensor(3.0)", "x = torch.tensor(3.0, requires_grad=True)"
    )
    with pytest.raises(AssertionError):
        test_constants_are_not_in_the_graph(edited)


def test_backward_fills_grad(snippet):
    run = snippet.after("backward")

    assert run.w.grad == -18
    assert run.b.grad == -6


def test_backward_fills_grad__but_not_behind_a_cut(snippet):
    edited = snippet.edit("product + b", "product.detach() + b")
    with pytest.raises(AssertionError):
        test_backward_fills_grad(edited)


def test_x_gets_no_gradient(snippet):
    run = snippet.after("backward")

    assert run.x.grad is None


def test_x_gets_no_gradient__but_does_when_it_asks(snippet):
    edited = snippet.edit(
        "x = torch.tensor(3.0)", "x = torch.tensor(3.0, requires_grad=True)"
    )
    with pytest.raises(AssertionError):
        test_x_gets_no_gradient(edited)


def test_the_chain_rule_agrees(snippet):
    run = snippet.after("by-hand")

    assert run.slope == run.b.grad
    assert run.slope * run.x == run.w.grad


def test_the_chain_rule_agrees__but_not_with_another_rule(snippet):
    with pytest.raises(AssertionError):
        test_the_chain_rule_agrees(
            snippet.edit("slope = 2 * (pred", "slope = 3 * (pred")
        )


def test_the_middle_keeps_none(snippet):
    run = snippet.after("not-kept")

    said = [str(each.message) for each in run.caught]
    assert any("not a leaf Tensor" in each for each in said)
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert run.prediction.grad is None


def test_the_middle_keeps_none__but_a_leaf_keeps_its_own(snippet):
    edited = snippet.edit("print(prediction.grad)", "print(w.grad)").edit(
        'print(str(caught[0].message).partition(". ")[0])', ""
    )
    with pytest.raises(AssertionError):
        test_the_middle_keeps_none(edited)


def test_retain_grad_keeps_it(snippet):
    run = snippet.after("kept")

    assert not run.middle.is_leaf
    assert run.middle.grad == 12
    assert run.start.grad == 36


def test_retain_grad_keeps_it__but_not_without_the_call(snippet):
    edited = snippet.edit("middle.retain_grad()\n", "").edit(
        "print(middle.grad, start.grad)", ""
    )
    with (
        pytest.raises(AssertionError),
        pytest.warns(UserWarning, match="not a leaf Tensor"),
    ):
        test_retain_grad_keeps_it(edited)


def test_gradients_add_up(snippet):
    run = snippet.after("add-up")

    assert run.rate.grad == 5 + 5


def test_gradients_add_up__but_not_if_cleared_between(snippet):
    edited = snippet.edit('print("once:", rate.grad)', "rate.grad = None")
    with pytest.raises(AssertionError):
        test_gradients_add_up(edited)


def test_none_starts_afresh(snippet):
    run = snippet.after("clear")

    assert run.rate.grad == 5


def test_none_starts_afresh__but_not_if_left_out(snippet):
    with pytest.raises(AssertionError):
        test_none_starts_afresh(snippet.edit("rate.grad = None\n", ""))


def test_a_graph_serves_once(snippet):
    run = snippet.after("again")

    assert run.side.grad == 6
    with pytest.raises(RuntimeError, match="backward through the graph a sec"):
        run.area.backward()


def test_a_graph_serves_once__but_again_where_nothing_was_saved(snippet):
    edited = snippet.edit(
        "area = side.square()\narea.backward()\n\ntry",
        "area = side + 3\narea.backward()\n\ntry",
    )
    with pytest.raises(AssertionError):
        test_a_graph_serves_once(edited)


def test_retain_graph_serves_again(snippet):
    run = snippet.after("retain")

    assert run.side.grad == 6 + 6


def test_retain_graph_serves_again__but_not_without_it(snippet):
    edited = snippet.edit("retain_graph=True", "retain_graph=False")
    with pytest.raises(RuntimeError, match="backward through the graph a sec"):
        test_retain_graph_serves_again(edited)


def test_backward_wants_a_scalar(snippet):
    run = snippet.after("many")

    assert run.sides.grad is None
    with pytest.raises(RuntimeError, match="only for scalar outputs"):
        run.areas.backward()


def test_backward_wants_a_scalar__but_a_sum_is_one(snippet):
    edited = snippet.edit("areas = sides.square()", "areas = sides.sum()")
    with pytest.raises(AssertionError):
        test_backward_wants_a_scalar(edited)


def test_backward_takes_weights(snippet):
    run = snippet.after("weigh")
    sides = run.sides.detach().requires_grad_()
    (sides.square() * torch.tensor([1.0, 0.0, 10.0])).sum().backward()

    assert torch.equal(run.sides.grad, sides.grad)


def test_backward_takes_weights__but_other_weights_give_others(snippet):
    with pytest.raises(AssertionError):
        test_backward_takes_weights(
            snippet.edit("[1.0, 0.0, 10.0]", "[1.0, 1.0, 10.0]")
        )


def test_every_parameter_gets_a_gradient(snippet):
    run = snippet.after("model")
    parameters = dict(run.model.named_parameters())

    assert len(parameters) == 4
    for each in parameters.values():
        assert each.grad is not None
        assert each.grad.abs().sum() > 0


def test_every_parameter_gets_a_gradient__but_not_a_switched_off_one(snippet):
    edited = snippet.edit(
        "inputs = torch.randn(8, 3)",
        "inputs = torch.randn(8, 3)\nmodel[2].bias.requires_grad_(False)",
    )
    with pytest.raises(AssertionError):
        test_every_parameter_gets_a_gradient(edited)


def test_gradients_have_the_shape_of_their_parameter(snippet):
    """Nothing in a program can make it false: torch checks it.

    Assigning a gradient of another shape raises an error, which the second
    half shows.
    """
    run = snippet.after("model")

    for each in run.model.parameters():
        assert each.grad.shape == each.shape
    with pytest.raises(
        RuntimeError, match="attempting to assign a gradient of size"
    ):
        run.model[0].weight.grad = torch.zeros(1)


def test_no_grad_records_no_graph(snippet):
    run = snippet.after("no-grad")

    assert not run.guess.requires_grad
    assert run.guess.grad_fn is None


def test_no_grad_records_no_graph__but_enable_grad_does(snippet):
    edited = snippet.edit("torch.no_grad()", "torch.enable_grad()")
    with pytest.raises(AssertionError):
        test_no_grad_records_no_graph(edited)


def test_a_switched_off_layer_gets_none(snippet):
    run = snippet.after("freeze")

    assert all(each.grad is None for each in run.model[0].parameters())
    assert all(each.grad is not None for each in run.model[2].parameters())


def test_a_switched_off_layer_gets_none__but_not_if_left_on(snippet):
    edited = snippet.edit("model[0].requires_grad_(False)", "")
    with pytest.raises(AssertionError):
        test_a_switched_off_layer_gets_none(edited)


@pytest.mark.cuda
def test_the_gradient_lives_beside_its_tensor(snippet):
    run = snippet.after("on-cuda")

    assert run.remote.grad.device == run.remote.device
    assert run.remote.grad.is_cuda


@pytest.mark.cuda
def test_the_gradient_lives_beside_its_tensor__but_on_cpu_on_cpu(snippet):
    with pytest.raises(AssertionError):
        test_the_gradient_lives_beside_its_tensor(
            snippet.edit('device="cuda"', 'device="cpu"')
        )
