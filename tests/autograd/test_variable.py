"""The claims of docs/autograd/variable.md."""

import pytest
import torch


def test_variable_returns_a_tensor(snippet):
    run = snippet.after("wrap")

    assert type(run.wrapped) is torch.Tensor


def test_variable_returns_a_tensor__but_not_of_a_parameter_class(
    snippet, fails
):
    edited = snippet.edit("Variable(data)", "torch.nn.Parameter(data)")
    fails(test_variable_returns_a_tensor, edited)


def test_variable_does_not_require_grad(snippet):
    run = snippet.after("wrap")

    assert not run.wrapped.requires_grad


def test_variable_does_not_require_grad__but_does_when_asked(snippet, fails):
    edited = snippet.edit(
        "Variable(data)", "Variable(data, requires_grad=True)"
    )
    fails(test_variable_does_not_require_grad, edited)


def test_variable_shares_memory(snippet):
    run = snippet.after("share")

    assert run.data.tolist() == [10.0, 2.0, 3.0]


def test_variable_shares_memory__but_not_with_a_clone(snippet, fails):
    edited = snippet.edit("Variable(data)", "Variable(data.clone())")
    fails(test_variable_shares_memory, edited)


def test_variable_cuts_the_graph(snippet):
    run = snippet.after("cut")

    assert run.prediction.grad_fn is not None
    assert run.rewrapped.grad_fn is None
    assert not run.rewrapped.requires_grad


def test_variable_cuts_the_graph__but_an_alias_does_not(snippet, fails):
    edited = snippet.edit("Variable(prediction)", "prediction.view(-1)")
    fails(test_variable_cuts_the_graph, edited)


def test_nothing_flows_through_variable(snippet):
    wrapped = snippet.edit(
        "Variable(prediction)", "Variable(prediction, requires_grad=True)"
    )
    run = wrapped.after("cut")

    run.rewrapped.sum().backward()

    assert run.rewrapped.grad is not None
    assert run.weight.grad is None


def test_nothing_flows_through_variable__but_does_without_it(snippet):
    run = snippet.edit("Variable(prediction)", "prediction").after("cut")

    run.rewrapped.sum().backward()

    assert run.weight.grad == 15.0


def test_backward_through_variable_raises(snippet):
    run = snippet.after("cut")

    with pytest.raises(RuntimeError, match="does not require grad"):
        run.rewrapped.sum().backward()


def test_backward_through_variable_raises__but_not_when_asked(snippet, fails):
    edited = snippet.edit(
        "Variable(prediction)", "Variable(prediction, requires_grad=True)"
    )
    fails(test_backward_through_variable_raises, edited)


def test_a_plain_tensor_gets_a_gradient(snippet):
    run = snippet.after("today")

    assert type(run.leaf) is torch.Tensor
    assert run.leaf.grad.tolist() == [2.0, 4.0]


def test_a_plain_tensor_gets_a_gradient__but_not_of_another_power(
    snippet, fails
):
    fails(
        test_a_plain_tensor_gets_a_gradient, snippet.edit("leaf**2", "leaf**3")
    )


def test_volatile_warns(snippet):
    run = snippet.after("volatile")

    said = [str(each.message) for each in run.caught]
    assert any("volatile was removed and now has no" in each for each in said)


def test_volatile_warns__but_the_plain_call_does_not(snippet, fails):
    edited = snippet.edit("(data, volatile=True)", "(data)").edit(
        "print(caught[0].message)", ""
    )
    fails(test_volatile_warns, edited)


def test_volatile_records_a_graph(snippet):
    run = snippet.after("volatile")

    assert run.output.requires_grad
    assert run.output.grad_fn is not None


def test_volatile_records_a_graph__but_no_grad_does_not(snippet, fails):
    edited = snippet.edit(
        "\noutput = weight * batch",
        "\nwith torch.no_grad():\n    output = weight * batch",
    )
    fails(test_volatile_records_a_graph, edited)


def test_no_grad_records_nothing(snippet):
    run = snippet.after("no-grad")

    assert run.weight.requires_grad
    assert not run.output.requires_grad


def test_no_grad_records_nothing__but_enable_grad_does(snippet, fails):
    edited = snippet.edit("torch.no_grad()", "torch.enable_grad()")
    fails(test_no_grad_records_nothing, edited)


def test_inference_tensors_stay_out(snippet):
    run = snippet.after("inference-mode")

    assert run.stricter.is_inference()
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        run.weight * run.stricter


def test_inference_tensors_stay_out__but_not_after_a_clone(snippet, fails):
    edited = snippet.edit(
        "stricter = weight * data",
        "made = weight * data\nstricter = made.clone()",
    )
    fails(test_inference_tensors_stay_out, edited)


def test_no_grad_tensors_may_return(snippet):
    run = snippet.after("no-grad")

    (run.weight * run.output).sum().backward()

    assert run.weight.grad == run.output.sum()


def test_no_grad_tensors_may_return__but_inference_tensors_do_not(snippet):
    edited = snippet.edit("torch.no_grad()", "torch.inference_mode()")
    with pytest.raises(RuntimeError, match="cannot be saved for backward"):
        test_no_grad_tensors_may_return(edited)


def test_data_0_raises(snippet):
    run = snippet.after("first-item")

    assert run.loss.dim() == 0
    with pytest.raises(IndexError, match="invalid index of a 0-dim tensor"):
        run.loss.data[0]


def test_data_0_raises__but_not_on_one_dimension(snippet, fails):
    edited = snippet.edit(
        "loss = (weight * data).sum()",
        "loss = (weight * data).sum().reshape(1)",
    )
    fails(test_data_0_raises, edited)


def test_item_returns_a_number(snippet):
    value = snippet.after("first-item").loss.item()

    assert type(value) is float
    assert value == 30.0


def test_item_returns_a_number__but_of_another_sum_another(snippet, fails):
    fails(test_item_returns_a_number, snippet.edit("2.0, 3.0])", "2.0, 4.0])"))


def test_parameters_require_grad(snippet):
    run = snippet.after("loop")

    assert all(each.requires_grad for each in run.model.parameters())


def test_parameters_require_grad__but_not_once_they_are_told_not_to(
    snippet, fails
):
    edited = snippet.edit(
        "\nfor _ in range(100):",
        "\nmodel.bias.requires_grad_(False)\nfor _ in range(100):",
    )
    fails(test_parameters_require_grad, edited)


def test_the_loop_learns_without_variable(snippet):
    run = snippet.after("learned")

    assert run.model.weight.item() == pytest.approx(3, abs=0.02)
    assert run.model.bias.item() == pytest.approx(1, abs=0.02)


def test_the_loop_learns_without_variable__but_not_without_steps(
    snippet, fails
):
    fails(
        test_the_loop_learns_without_variable,
        snippet.edit("    optimizer.step()\n", ""),
    )


def test_inputs_get_no_gradient(snippet):
    run = snippet.after("learned")

    assert not run.inputs.requires_grad
    assert run.inputs.grad is None
    assert run.model.weight.grad is not None


def test_inputs_get_no_gradient__but_do_when_asked(snippet, fails):
    edited = snippet.edit(
        "20).unsqueeze(1)", "20).unsqueeze(1).requires_grad_()"
    )
    fails(
        test_inputs_get_no_gradient,
        edited.edit("3 * inputs + 1", "3 * inputs.detach() + 1"),
    )
