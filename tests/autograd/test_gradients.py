"""The claims of docs/autograd/gradients.md."""

import pytest
import torch


def error_of(call):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def test_a_tensor_requires_nothing_by_default(snippet):
    run = snippet.after("ask")

    assert not run.x.requires_grad
    assert run.w.requires_grad


def test_a_tensor_requires_nothing_by_default__but_not_when_told(
    snippet, fails
):
    edited = snippet.edit("tensor(3.0)", "tensor(3.0, requires_grad=True)")
    fails(test_a_tensor_requires_nothing_by_default, edited)


def test_whole_numbers_cannot_require_gradients(snippet):
    run = snippet.after("whole-numbers")

    assert not hasattr(run, "counts")


def test_whole_numbers_cannot_require_gradients__but_not_fractions(
    snippet, fails
):
    edited = snippet.edit("[1, 2, 3]", "[1.0, 2.0, 3.0]")
    fails(test_whole_numbers_cannot_require_gradients, edited)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_whole_numbers_cannot_require_gradients__but_not(
    snippet, dtype, fails
):
    edited = snippet.edit("[1, 2, 3]", f"[1, 2, 3], dtype=torch.{dtype}")
    fails(test_whole_numbers_cannot_require_gradients, edited)


def test_a_product_inherits_the_request(snippet):
    run = snippet.after("compute")

    assert run.product.requires_grad
    assert not (run.x * run.target).requires_grad


def test_a_product_inherits_the_request__but_not_when_detached(snippet, fails):
    edited = snippet.edit("product = w * x", "product = w.detach() * x")
    fails(test_a_product_inherits_the_request, edited)


def test_grad_fn_is_what_made_it(snippet):
    run = snippet.after("history")

    assert run.product.grad_fn is not None
    assert run.product.grad_fn.name() == "MulBackward0"
    assert run.w.grad_fn is None
    assert run.w.is_leaf
    assert not run.product.is_leaf


def test_grad_fn_is_what_made_it__but_not_once_detached(snippet, fails):
    edited = snippet.edit("loss = (", "product = product.detach()\nloss = (")
    edited = edited.edit("product.grad_fn.name()", "product.grad_fn")
    fails(test_grad_fn_is_what_made_it, edited)


def test_the_walk_ends_at_w_and_b(snippet):
    edges = snippet.after("walk").edges

    ends = {end for _, end in edges} - {start for start, _ in edges}
    assert ends == {"AccumulateGrad: w", "AccumulateGrad: b"}


def test_the_walk_ends_at_w_and_b__but_not_when_x_asks_too(snippet, fails):
    edited = snippet.edit("tensor(3.0)", "tensor(3.0, requires_grad=True)")
    fails(test_the_walk_ends_at_w_and_b, edited)


def test_the_walk_ends_at_w_and_b__but_not_past_a_detach(snippet, fails):
    edited = snippet.edit("= product + b", "= product.detach() + b")
    fails(test_the_walk_ends_at_w_and_b, edited)


def test_backward_follows_the_arrows(snippet):
    run = snippet.after("walk")
    visited = []
    waiting = [run.loss.grad_fn]
    while waiting:
        node = waiting.pop()
        name = run.label(node)
        node.register_hook(lambda *_, name=name: visited.append(name))
        waiting += [each for each, _ in node.next_functions if each]

    run.loss.backward()

    assert visited[0] == run.loss.grad_fn.name()
    for start, end in run.edges:
        assert visited.index(start) < visited.index(end)


def test_backward_follows_the_arrows__but_not_turned_around(snippet, fails):
    edited = snippet.edit(
        "(label(node), label(earlier))", "(label(earlier), label(node))"
    )
    fails(test_backward_follows_the_arrows, edited)


def test_backward_fills_grad(snippet):
    run = snippet.after("backward")

    def loss(w, b):
        return (w * 3 + b - 10) ** 2

    # Between two points, the slope of a parabola is that of the middle.
    assert run.w.grad == loss(2.5, 1) - loss(1.5, 1)
    assert run.b.grad == loss(2, 1.5) - loss(2, 0.5)
    assert run.x.grad is None


def test_backward_fills_grad__but_not_behind_a_detach(snippet, fails):
    edited = snippet.edit("= product + b", "= product + b.detach()")
    fails(test_backward_fills_grad, edited)


def test_backward_fills_grad__but_not_where_x_asks_too(snippet, fails):
    edited = snippet.edit("tensor(3.0)", "tensor(3.0, requires_grad=True)")
    fails(test_backward_fills_grad, edited)


def test_backward_agrees_with_the_chain_rule(snippet):
    run = snippet.after("by-hand")

    assert run.b.grad == run.slope
    assert run.w.grad == run.slope * run.x


def test_backward_agrees_with_the_chain_rule__but_not_a_link_short(
    snippet, fails
):
    edited = snippet.edit("slope = 2 * (", "slope = (")
    fails(test_backward_agrees_with_the_chain_rule, edited)


def test_a_computed_tensor_keeps_no_gradient(snippet):
    run = snippet.after("not-kept")

    assert not run.prediction.is_leaf
    assert [each.category for each in run.caught] == [UserWarning]
    with pytest.warns(UserWarning, match="not a leaf Tensor"):
        assert run.prediction.grad is None


def test_a_computed_tensor_keeps_no_gradient__but_a_leaf_does(snippet, fails):
    edited = snippet.edit("print(prediction.grad)", "print(w.grad)")
    edited = edited.edit(
        "print(str(caught[0]", "caught and print(str(caught[0]"
    )
    fails(test_a_computed_tensor_keeps_no_gradient, edited)


def test_a_computed_tensor_keeps_no_gradient__but_not_if_retained(
    snippet, fails
):
    edited = snippet.edit("loss = (", "prediction.retain_grad()\nloss = (")
    edited = edited.edit(
        "print(str(caught[0]", "caught and print(str(caught[0]"
    )
    fails(test_a_computed_tensor_keeps_no_gradient, edited)


def test_retain_grad_keeps_the_gradient(snippet):
    run = snippet.after("kept")

    assert not run.middle.is_leaf
    assert run.middle.retains_grad
    assert run.middle.grad == 2 * run.middle


@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")
def test_retain_grad_keeps_the_gradient__but_not_unasked(snippet, fails):
    edited = snippet.edit("middle.retain_grad()\n", "")
    fails(test_retain_grad_keeps_the_gradient, edited)


def test_gradients_add_up(snippet):
    run = snippet.after("add-up")

    assert run.rate.grad == 5 + 5


def test_gradients_add_up__but_not_when_cleared_between(snippet, fails):
    edited = snippet.edit('print("once:", rate.grad)', "rate.grad = None")
    fails(test_gradients_add_up, edited)


def test_none_starts_afresh(snippet):
    run = snippet.after("clear")

    assert run.rate.grad == 5


def test_none_starts_afresh__but_not_without_it(snippet, fails):
    fails(test_none_starts_afresh, snippet.edit("rate.grad = None\n", ""))


def test_a_second_pass_raises(snippet):
    run = snippet.after("again")

    assert "a second time" in error_of(run.area.backward)


def test_a_second_pass_raises__but_not_with_a_retained_graph(snippet, fails):
    edited = snippet.edit(
        "area.backward()\n\ntry:", "area.backward(retain_graph=True)\n\ntry:"
    ).edit("try:\n    area.backward()", "try:\n    area.size()")
    fails(test_a_second_pass_raises, edited)


def test_a_second_pass_raises__but_not_where_a_sum_saves_nothing(
    snippet, fails
):
    edited = snippet.edit(
        "area = side.square()\narea.backward()\n",
        "area = side + side\narea.backward()\n",
    )
    fails(test_a_second_pass_raises, edited)


def test_a_retained_graph_serves_twice(snippet):
    assert error_of(lambda: snippet.after("retain")) == ""
    assert snippet.after("retain").side.grad == 6 + 6


def test_a_retained_graph_serves_twice__but_not_without_retain(snippet, fails):
    edited = snippet.edit("(retain_graph=True)", "()")
    fails(test_a_retained_graph_serves_twice, edited)


def test_backward_starts_from_one_number(snippet):
    run = snippet.after("many")

    assert run.sides.grad is None
    assert "only for scalar outputs" in error_of(run.areas.backward)


def test_backward_starts_from_one_number__but_not_from_a_sum(snippet, fails):
    edited = snippet.edit("areas = sides.square()", "areas = sides.sum()")
    fails(test_backward_starts_from_one_number, edited)


def test_backward_starts_from_one_number__in_whatever_shape(snippet):
    edited = snippet.edit("[1.0, 2.0, 3.0], req", "[[3.0]], req")
    run = edited.after("many")

    assert run.sides.grad.tolist() == [[6.0]]


def test_the_argument_weighs(snippet):
    run = snippet.after("weigh")
    sides = run.sides.detach().requires_grad_()
    weights = torch.tensor([1.0, 0.0, 10.0])
    (weights * sides.square()).sum().backward()

    assert torch.equal(run.sides.grad, sides.grad)


def test_the_argument_weighs__but_not_in_a_bare_sum(snippet, fails):
    edited = snippet.edit(
        "areas.backward(torch.tensor([1.0, 0.0, 10.0]))",
        "areas.sum().backward()",
    )
    fails(test_the_argument_weighs, edited)


def test_every_parameter_gets_a_gradient(snippet):
    parameters = dict(snippet.after("model").model.named_parameters())

    assert {"0.weight", "0.bias", "2.weight", "2.bias"} == {*parameters}
    for each in parameters.values():
        assert each.grad is not None
        assert each.grad.shape == each.shape


def test_every_parameter_gets_a_gradient__but_not_a_frozen_one(snippet, fails):
    edited = snippet.edit(
        "goals = 5", "model[0].bias.requires_grad_(False)\ngoals = 5"
    )
    fails(test_every_parameter_gets_a_gradient, edited)


def test_every_parameter_gets_a_gradient__which_a_nudge_confirms(snippet):
    run = snippet.after("model")
    model, inputs = run.model.double(), run.inputs.double()
    for each in model.parameters():
        losses = []
        for nudge in (each.grad * 1e-4, each.grad * -2e-4):
            each.data += nudge
            losses.append((model(inputs) - run.goals).square().mean().item())
        each.data += each.grad * 1e-4

        slope = (losses[0] - losses[1]) / 2e-4
        assert slope == pytest.approx(each.grad.square().sum().item(), 1e-4)


def test_a_seed_repeats_the_gradients(snippet):
    first, second = snippet.after("model"), snippet.after("model")

    for name, each in first.model.named_parameters():
        again = second.model.get_parameter(name)
        assert torch.equal(each.grad, again.grad)


def test_a_seed_repeats_the_gradients__but_not_without_one(snippet, fails):
    edited = snippet.edit("torch.manual_seed(0)\n", "")
    fails(test_a_seed_repeats_the_gradients, edited)


def test_no_grad_leaves_no_graph(snippet):
    run = snippet.after("no-grad")

    assert all(each.requires_grad for each in run.model.parameters())
    assert run.guess.grad_fn is None
    assert not run.guess.requires_grad


def test_no_grad_leaves_no_graph__but_enable_grad_does(snippet, fails):
    edited = snippet.edit("torch.no_grad()", "torch.enable_grad()")
    fails(test_no_grad_leaves_no_graph, edited)


def test_a_frozen_layer_gets_no_gradient(snippet):
    first, _, last = snippet.after("freeze").model

    assert all(each.grad is None for each in first.parameters())
    assert all(each.grad is not None for each in last.parameters())


def test_a_frozen_layer_gets_no_gradient__but_not_unfrozen(snippet, fails):
    edited = snippet.edit("requires_grad_(False)", "requires_grad_(True)")
    fails(test_a_frozen_layer_gets_no_gradient, edited)


def test_a_frozen_layer_gets_no_gradient__but_keeps_an_old_one(snippet, fails):
    edited = snippet.edit("model.zero_grad()\n", "")
    fails(test_a_frozen_layer_gets_no_gradient, edited)


@pytest.mark.cuda
def test_a_gradient_lives_with_its_leaf(snippet):
    run = snippet.after("on-cuda")

    assert run.remote.grad.device.type == "cuda"


@pytest.mark.cuda
def test_a_gradient_lives_with_its_leaf__but_not_with_a_copy_of_it(
    snippet, fails
):
    edited = snippet.edit('device="cuda", ', "").edit(
        "remote.square()", "remote.cuda().square()"
    )
    fails(test_a_gradient_lives_with_its_leaf, edited)
