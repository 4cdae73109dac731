"""The claims of docs/autograd/in_place.md."""

import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from extensions.evidence.counterexamples import no_error

MODIFIED = "modified by an inplace operation"
DTYPES = [torch.float32, torch.float64, torch.bfloat16]


def error_of(call):
    """Return what a call complains of: nothing, if it runs."""
    try:
        call()
    except RuntimeError as error:
        return str(error)
    return ""


def ready():
    """Return a fresh leaf like the one of the page."""
    return torch.tensor([0.1, 0.2, 0.3], requires_grad=True)


# Do this


def test_a_new_tensor_overwrites_nothing(snippet):
    with no_error():
        run = snippet.after("do-this")
    start = torch.tensor([0.1, 0.2, 0.3])

    assert torch.equal(run.growth, start.exp() + 1)
    assert torch.equal(run.rate.grad, start.exp())
    for dtype in DTYPES:
        rate = ready().detach().to(dtype).requires_grad_()
        before = growth = rate.exp()
        growth = growth + 1
        growth.sum().backward()
        assert before._version == 0
        assert torch.equal(before, rate.exp())
        assert torch.equal(rate.grad, rate.exp())


@pytest.mark.parametrize(
    "change", ["growth += 1", "growth.data += 1", "growth = growth * 2"]
)
def test_a_new_tensor_overwrites_nothing__but_not_so(snippet, change, fails):
    edited = snippet.edit("growth = growth + 1  #", f"{change}  #")
    fails(test_a_new_tensor_overwrites_nothing, edited)


def test_weights_change_under_no_grad(snippet):
    with no_error():
        run = snippet.after("do-this")
    start = torch.tensor([0.1, 0.2, 0.3])

    assert torch.equal(run.rate, start - 0.1 * start.exp())
    assert run.rate._version == 1
    assert run.rate.is_leaf
    assert run.rate.requires_grad


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    rate -= 0.1", "    changed = rate - 0.1"),
        ("    rate -= 0.1", "    rate = rate - 0.1"),
        ("no_grad():\n    rate", "enable_grad():\n    rate"),
        (
            "    rate -= 0.1 * rate.grad",
            "    rate = (rate - 0.1 * rate.grad).requires_grad_()",
        ),
        ("    rate -= 0.1", "    rate.requires_grad_(False)\n    rate -= 0.1"),
    ],
)
def test_weights_change_under_no_grad__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_weights_change_under_no_grad, snippet.edit(old, new))


# How it works


CHANGES = {
    "+=": lambda x: x.__iadd__(1),
    "*=": lambda x: x.__imul__(2),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(torch.ones_like(x)),
    "exp_": lambda x: x.exp_(),
    "clamp_": lambda x: x.clamp_(0, 1),
    "relu, in place": lambda x: F.relu(x, inplace=True),
    "one element": lambda x: x.__setitem__(0, 1.0),
    "a slice": lambda x: x.__setitem__(slice(1, None), 2.0),
    "a mask": lambda x: x.__setitem__(x > 0, 0.0),
    "a view": lambda x: x.view(-1).add_(1),
    "detached": lambda x: x.detach().add_(1),
    "out=": lambda x: torch.add(torch.ones(3), 1, out=x.detach()),
}


RAISES = ["{} += 1", "{}[0] = 1", "{}.zero_()", "{}.copy_(rate.detach())"]


@pytest.mark.parametrize("change", RAISES)
@pytest.mark.parametrize("target", ["growth"])
def test_a_change_raises_the_version(snippet, change, target):
    if (change, target) != (RAISES[0], "growth"):
        written = change.format(target)
        snippet = snippet.edit("growth += 1\nprint", f"{written}\nprint")
    run = snippet.after("overwritten")

    assert run.growth._version == 1
    for tensor in (
        torch.ones(3),
        torch.ones(2, 2, dtype=torch.long),
        torch.ones(3, 2, dtype=torch.bfloat16).T,
        torch.ones(2, requires_grad=True) * 1,
    ):
        for times in (1, 2, 3):
            tensor += 1
            tensor[0] = 1
            tensor.zero_()
            tensor.copy_(torch.ones_like(tensor))
            assert tensor._version == 4 * times


@pytest.mark.parametrize("change", RAISES)
@pytest.mark.parametrize("target", ["growth.data", "growth.clone()"])
def test_a_change_raises_the_version__but_not_through_data_or_in_a_copy(
    snippet, change, target, fails
):
    if "()" in target and "+=" in change:
        change = "{}.add_(1)"
    fails(test_a_change_raises_the_version, snippet, change, target)


@pytest.mark.parametrize(
    "change",
    ["growth = growth + 1", "growth += 1\ngrowth += 1", "growth.add(1)"],
)
def test_a_change_raises_the_version__but_not_a_new_tensor_or_by_two(
    snippet, change, fails
):
    edited = snippet.edit("growth += 1\nprint", f"{change}\nprint")
    fails(test_a_change_raises_the_version, edited, RAISES[0], "growth")


def test_an_overwritten_result_raises(snippet):
    run = snippet.after("overwritten")
    assert MODIFIED in error_of(lambda: run.growth.sum().backward())
    assert torch.equal(run.growth, run.rate.exp() + 1)

    for change in CHANGES.values():
        growth = ready().exp()
        total = growth.sum()
        change(growth)
        assert MODIFIED in error_of(total.backward)


def test_an_overwritten_result_raises__but_not_a_new_tensor(snippet, fails):
    edited = snippet.edit("growth += 1\nprint", "growth = growth + 1\nprint")
    fails(test_an_overwritten_result_raises, edited)


def test_an_overwritten_result_raises__ends_under_allow_mutation_on_saved(
    snippet, fails
):
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        fails(test_an_overwritten_result_raises, snippet)


def test_an_overwritten_result_raises__ends_under_save_on_cpu(snippet, fails):
    edited = snippet.edit(
        'growth = rate.exp()\nprint("v',
        "with torch.autograd.graph.save_on_cpu():\n"
        '    growth = rate.exp()\nprint("v',
    )
    fails(test_an_overwritten_result_raises, edited)


def test_an_overwritten_result_raises__but_not_one_that_is_not_saved(
    snippet, fails
):
    edited = snippet.edit(
        'growth = rate.exp()\nprint("v', 'growth = rate + 1\nprint("v'
    )
    fails(test_an_overwritten_result_raises, edited)


def test_an_overwritten_result_raises__also_uncaught(snippet):
    edited = snippet.edit(
        "except RuntimeError as error:\n    print(error)\n",
        "except ZeroDivisionError as error:\n    print(error)\n",
    )

    assert MODIFIED in error_of(lambda: edited.after("overwritten"))


# What is saved


def found(run, name, dtype=torch.float32, shape=(3,), ask=(True, True)):
    """Return what one operation saves."""
    torch.manual_seed(0)
    x, y = (torch.rand(shape, dtype=dtype) + 0.5 for _ in "xy")
    x, y = (t.requires_grad_(a) * 1 for t, a in zip((x, y), ask, strict=True))
    return run.saves(run.operations[name], x, y)


def check_saved(snippet, names, tensors):
    run = snippet.after("saves-list")
    x, y = torch.rand(2, 4)
    for name in names:
        assert run.found[name] == tensors
        for dtype in DTYPES:
            for shape in ((), (3,), (2, 3)):
                assert found(run, name, dtype, shape) == tensors
        written = eval(name, {"x": x, "y": y})
        result = run.operations[name](x, y)
        assert torch.equal(result, written)


def test_sums_save_nothing(snippet):
    check_saved(snippet, ["x + y", "3 * x", "x.sum()"], set())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y: x + y", "y: torch.logaddexp(x, y)"),
        ("y: 3 * x", "y: torch.tensor(3.0, requires_grad=True) * x"),
        ("y: x.sum()", "y: x.prod()"),
    ],
)
def test_sums_save_nothing__but_not_other_operations(snippet, old, new, fails):
    fails(test_sums_save_nothing, snippet.edit(old, new))


def test_a_product_saves_its_factors(snippet):
    check_saved(snippet, ["x * y"], {"x", "y"})
    run = snippet.after("saves")
    assert found(run, "x * y", ask=(True, False)) == {"y"}
    assert found(run, "x * y", ask=(False, True)) == {"x"}


@pytest.mark.parametrize(
    "new", ["x * y.detach()", "x.detach() * y", "x * 1 * y", "x + y"]
)
def test_a_product_saves_its_factors__but_not_another(snippet, new, fails):
    edited = snippet.edit("y: x * y", f"y: {new}")
    fails(test_a_product_saves_its_factors, edited)


def test_squares_save_their_input(snippet):
    check_saved(snippet, ["x.square()", "x.log()"], {"x"})


@pytest.mark.parametrize(
    ("old", "new"),
    [("y: x.square()", "y: x.sqrt()"), ("y: x.log()", "y: x.exp()")],
)
def test_squares_save_their_input__but_not_roots_and_exp(
    snippet, old, new, fails
):
    fails(test_squares_save_their_input, snippet.edit(old, new))


def test_exp_saves_its_result(snippet):
    names = ["x.exp()", "x.sigmoid()", "x.relu()"]
    check_saved(snippet, names, {"result"})


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y: x.exp()", "y: x.sin()"),
        ("y: x.sigmoid()", "y: nn.functional.logsigmoid(x)"),
        ("y: x.relu()", "y: nn.functional.gelu(x)"),
    ],
)
def test_exp_saves_its_result__but_not_others(snippet, old, new, fails):
    fails(test_exp_saves_its_result, snippet.edit(old, new))


def test_only_saved_tensors_matter(snippet):
    run = snippet.after("saves-list")
    assert len(run.operations) == 9

    for operation in run.operations.values():
        for name in ("x", "y", "result"):
            leaf = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
            for change in SHIFTS:
                x, y = leaf * 2, leaf * 3
                saved = run.saves(operation, x, y)
                result = operation(x, y)
                total = result.sum() * 2
                changed = {"x": x, "y": y, "result": result}[name]
                version = changed._version
                change(changed)
                assert changed._version > version

                said = error_of(total.backward)

                assert (MODIFIED in said) == (name in saved)
                assert (said == "") == (name not in saved)


SHIFTS = [
    lambda x: x.mul_(2),
    lambda x: x.zero_(),
    lambda x: x.detach().add_(1),
    lambda x: x.view(-1)[0].fill_(1),
    lambda x: torch.no_grad()(x.copy_)(torch.ones(())),
]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y: x * y", "y: x.data * y"),
        ("y: x + y", "y: x.exp().mul_(y)"),
    ],
)
def test_only_saved_tensors_matter__but_not_through_data_or_if_it_raises_alone(
    snippet, old, new, fails
):
    fails(test_only_saved_tensors_matter, snippet.edit(old, new))


# Views


def test_views_share_a_version(snippet):
    run = snippet.after("view")
    assert run.first_two._version == run.growth._version == 1
    views = [
        lambda x: x[0],
        lambda x: x[1:],
        lambda x: x.view(-1),
        lambda x: x.reshape(3, 1),
        lambda x: x.unsqueeze(0).T,
        lambda x: x[::2],
        lambda x: x.detach(),
        lambda x: x.detach()[1:],
    ]

    for take in views:
        whole = torch.ones(3)
        view = take(whole)
        whole.add_(1)
        assert view._version == whole._version == 1
        take(whole).zero_()
        assert view._version == whole._version == 2


@pytest.mark.parametrize(
    "copy", ["growth[:2].clone()", "growth[[0, 1]]", "growth.data[:2]"]
)
def test_views_share_a_version__but_not_copies(snippet, copy, fails):
    edited = snippet.edit("first_two = growth[:2]", f"first_two = {copy}")
    fails(test_views_share_a_version, edited)


def test_changes_flow_through_views(snippet):
    run = snippet.after("view")

    assert run.rate.grad.tolist() == [3, 3, 1]
    assert torch.equal(run.growth[:2], 3 * (1 + run.rate[:2]))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("first_two = growth[:2]", "first_two = growth[:2].clone()"),
        ("first_two = growth[:2]", "first_two = growth.detach()[:2]"),
        ("first_two = growth[:2]", "first_two = growth[:3]"),
        ("first_two *= 3", "first_two = first_two * 3"),
        ("first_two *= 3", "with torch.no_grad():\n    first_two *= 3"),
    ],
)
def test_changes_flow_through_views__but_not_otherwise(
    snippet, old, new, fails
):
    fails(test_changes_flow_through_views, snippet.edit(old, new))


# Read the error


@pytest.mark.parametrize("name", ["exp", "sigmoid", "tanh", "relu"])
def test_the_text_names_the_operation(snippet, name):
    run = snippet.edit(
        'growth = rate.exp()\nprint("v', f'growth = rate.{name}()\nprint("v'
    ).after("overwritten")
    said = error_of(lambda: run.growth.sum().backward())

    assert f"output 0 of {name.capitalize()}" in said
    for change in CHANGES.values():
        growth = getattr(ready(), name)()
        total = growth.sum()
        change(growth)
        assert f"output 0 of {name.capitalize()}" in error_of(total.backward)


def test_the_text_names_the_operation__but_not_where_the_input_was_saved(
    snippet, fails
):
    edited = snippet.edit(
        "growth += 1\nprint",
        "growth = growth * 1\n(growth.square(), growth.add_(1))\nprint",
    )
    fails(test_the_text_names_the_operation, edited, "exp")


def shape_in_the_text(operation, shape, saves_result=False):
    """Overwrite what an operation saved, and return the shape in the text."""
    tensor = torch.ones(shape, requires_grad=True) * 1
    result = operation(tensor)
    total = result.sum()
    (result if saves_result else tensor).add_(1)
    said = error_of(total.backward)
    found = re.search(r"operation: \[torch\.\w+ (\[[\d, ]*\])\]", said)
    return found and eval(found[1])


def test_the_text_gives_the_shape(snippet, layer=None):
    run = snippet.after("overwritten")
    said = error_of(lambda: run.growth.sum().backward())
    assert "operation: [torch.FloatTensor [3]]" in said

    for shape in ((), (3,), (3, 4), (2, 3, 4)):
        for name in ("exp", "sigmoid", "tanh", "relu"):
            operation = getattr(torch, name)
            found = shape_in_the_text(operation, shape, saves_result=True)
            assert found == [*shape]
        assert shape_in_the_text(torch.square, shape) == [*shape]
    views = {
        (2, 4): lambda x: x[:2].log(),
        (4, 3): lambda x: x.T.log(),
        (12,): lambda x: x.view(-1).log(),
    }
    for shape, operation in views.items():
        assert shape_in_the_text(operation, (3, 4)) == [*shape]
    layer = layer or nn.Linear(3, 4)
    assert shape_in_the_text(layer, (10, 3)) == [10, 3]
    assert shape_in_the_text(layer, (2, 5, 3)) == [10, 3]


@pytest.mark.parametrize("new", ["growth = growth + 1", "growth.data += 1"])
def test_the_text_gives_the_shape__but_not_without_one(snippet, new, fails):
    edited = snippet.edit("growth += 1\nprint", f"{new}\nprint")
    fails(test_the_text_gives_the_shape, edited)


def test_the_text_gives_the_shape__but_another_of_a_norm(snippet, fails):
    fails(test_the_text_gives_the_shape, snippet, nn.LayerNorm(3))


@pytest.mark.parametrize(("earlier", "later"), [(0, 1), (0, 3), (2, 1)])
def test_the_text_counts_changes(snippet, earlier, later):
    run = snippet.after("overwritten")
    said = error_of(lambda: run.growth.sum().backward())
    assert "is at version 1; expected version 0 instead" in said
    assert run.growth._version == 1
    growth = ready() * 1
    for _ in range(earlier):
        growth += 1
    total = growth.square().sum()
    for _ in range(later):
        growth += 1

    said = error_of(total.backward)

    versions = re.search(r"at version (\d+); expected version (\d+)", said)
    assert versions.groups() == (str(earlier + later), str(earlier))
    assert "[torch.FloatTensor [3]]" in said


@pytest.mark.parametrize("changes", ["growth += 1\ngrowth += 1", ""])
def test_the_text_counts_changes__but_not_other_numbers(
    snippet, changes, fails
):
    edited = snippet.edit("growth += 1\nprint", f"{changes}\nprint")
    fails(test_the_text_counts_changes, edited, 0, 1)


# Find the line


def lines_of(snippet):
    """Return where the cell computes and where it overwrites."""
    text = snippet.text
    start = text.index("# %% find-the-line")
    places = (
        text.index("growth = rate.exp()", start),
        text.index(" += 1", start),
    )
    return [text.count("\n", 0, place) + 1 for place in places]


def test_anomaly_shows_the_forward_line(snippet):
    run = snippet.after("find-the-line")
    said = [str(each.message) for each in run.caught]
    computed, overwritten = lines_of(snippet)
    errors = [each for each in said if "Error detected in" in each]

    assert len(errors) == 1
    assert f'"{snippet.path}", line {computed},' in errors[0]
    assert f'"{snippet.path}", line {overwritten},' not in errors[0]
    assert torch.equal(run.growth, run.rate.exp() + 1)


def test_anomaly_shows_the_forward_line__but_not_around_backward_alone(
    snippet, fails
):
    edited = (
        snippet.edit("    torch.autograd.detect_anomaly(),\n", "")
        .edit(
            "    with contextlib.suppress(RuntimeError):",
            "    with contextlib.suppress(RuntimeError),"
            " torch.autograd.detect_anomaly():",
        )
        .edit("splitlines()[-2]", "splitlines()[-1]")
    )
    fails(test_anomaly_shows_the_forward_line, edited)


def test_anomaly_shows_the_forward_line__but_not_without_it(snippet, fails):
    edited = snippet.edit("    torch.autograd.detect_anomaly(),\n", "").edit(
        "print(str(caught[-1]", "caught and print(str(caught[-1]"
    )
    fails(test_anomaly_shows_the_forward_line, edited)


# Fix it


PLUS, COPY = "growth: growth + 1", "growth.clone().add_(1)"
WHERE = "torch.where(growth > 1, growth, 0)"
FILL = "growth.masked_fill(growth < 1, 0)"


def test_fixes_give_the_gradient(snippet):
    with no_error():
        run = snippet.after("fixes")
    assert len(run.fixes) == 4

    lower = torch.tensor([-1.0, -0.5, 2.0], requires_grad=True)
    for rate in (run.rate, ready(), lower):
        slope = rate.detach().exp()
        masked = slope * (slope > 1)
        numbers = [slope + 1, slope + 1, masked, masked]
        rights = [slope, slope, masked, masked]
        for name, number, right in zip(
            run.fixes, numbers, rights, strict=True
        ):
            fixed = run.fixes[name](rate.exp())
            [gradient] = torch.autograd.grad(fixed.sum(), rate)
            assert torch.equal(fixed, number)
            assert torch.equal(gradient, right)
            assert rate is not run.rate or torch.equal(
                run.gradients[name], right
            )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLUS, "growth: (growth.data.add_(1), growth)[1]"),
        (COPY, "(growth.data.add_(1), growth)[1]"),
        (WHERE, f"({WHERE}, growth.data.add_(1))[0]"),
        (FILL, f"({FILL}, growth.data.add_(1))[0]"),
    ],
)
def test_fixes_give_the_gradient__but_not_through_data(
    snippet, old, new, fails
):
    fails(test_fixes_give_the_gradient, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLUS, "growth: growth.add_(1)"),
        (COPY, "growth.add_(1)"),
        (WHERE, "growth.mul_(growth > 1)"),
        (FILL, "growth.masked_fill_(growth < 1, 0)"),
    ],
)
def test_fixes_give_the_gradient__but_not_in_place(snippet, old, new, fails):
    fails(test_fixes_give_the_gradient, snippet.edit(old, new))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PLUS, "growth: growth + 2"),
        (COPY, "growth.clone().add_(2)"),
        (WHERE, "torch.where(growth > 2, growth, 0)"),
        (FILL, "growth.masked_fill(growth < 2, 0)"),
    ],
)
def test_fixes_give_the_gradient__but_not_of_other_numbers(
    snippet, old, new, fails
):
    fails(test_fixes_give_the_gradient, snippet.edit(old, new))


# Leaves and views


LEAF = "leaf Variable that requires grad is being used in an in-place"


def test_leaves_refuse(snippet):
    run = snippet.after("leaves")

    said = {name: str(run.refusal(f)) for name, f in run.attempts.items()}
    assert LEAF in said["a leaf"]
    assert f"view of a {LEAF}" in said["a view of a leaf"]
    for leaf in (
        ready(),
        nn.Parameter(torch.ones(2, 3)),
        nn.Linear(2, 3).weight,
    ):
        before = leaf.detach().clone()
        for change in (torch.Tensor.zero_, lambda x: x.add_(1)):
            assert LEAF in error_of(lambda: change(leaf))  # noqa: B023
            assert LEAF in error_of(lambda: change(leaf[:1]))  # noqa: B023
        assert torch.equal(leaf, before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("lambda: rate.add_(1)", "lambda: (rate * 1).add_(1)"),
        ("lambda: rate.add_(1)", "lambda: rate.detach().add_(1)"),
        ("lambda: rate.add_(1)", "lambda: torch.no_grad()(rate.add_)(1)"),
        ("lambda: rate[:2].add_(1)", "lambda: (rate * 1)[:2].add_(1)"),
        ("lambda: rate[:2].add_(1)", "lambda: rate[:2].clone().add_(1)"),
    ],
)
def test_leaves_refuse__but_not_others(snippet, old, new, fails):
    fails(test_leaves_refuse, snippet.edit(old, new))


SEVERAL = "output of a function that returns multiple views"
TAKE = {
    "unbind": "unbind()[0]",
    "split": "split(2)[1]",
    "chunk": "chunk(2)[0]",
    "a loop": "__iter__().__next__()",
}


@pytest.mark.parametrize("name", TAKE)
def test_several_views_refuse(snippet, name):
    if name != "unbind":
        snippet = snippet.edit("unbind()[0].add_(1)", f"{TAKE[name]}.add_(1)")
    run = snippet.after("leaves")
    change, before = run.attempts["one of several views"], run.rate.tolist()

    assert SEVERAL in error_of(change)
    with torch.no_grad(), no_error():
        change()
    assert run.rate.tolist() == before  # of a computed tensor, not of a leaf
    for leaf in (ready(), torch.ones(4, 2, requires_grad=True)):
        for tensor in (leaf, leaf * 2):
            view = eval(f"tensor.{TAKE[name]}", {"tensor": tensor})
            assert SEVERAL in error_of(view.zero_)


@pytest.mark.parametrize("name", TAKE)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("rate.exp().unbind()[0]", "rate.detach().exp().unbind()[0]"),
        ('views": lambda: rate', 'views": torch.no_grad()(lambda: rate'),
    ],
)
def test_several_views_refuse__but_not_unrecorded(
    snippet, name, old, new, fails
):
    edited = snippet.edit(old, new)
    if "no_grad" in new:
        edited = edited.edit("[0].add_(1),\n}", "[0].add_(1)),\n}")
    fails(test_several_views_refuse, edited, name)


# A loop over time steps


@pytest.mark.parametrize("steps", [2, 3, 4, 9])
def test_writing_steps_raises(snippet, steps):
    run = snippet.after("steps")
    keep = torch.tensor(0.5, requires_grad=True)

    total = run.written(keep, steps)

    assert total == sum(0.5**t for t in range(steps))
    assert MODIFIED in str(run.refusal(total.backward))
    assert run.total.requires_grad


@pytest.mark.parametrize(
    "step",
    [
        "keep + levels[t - 1]",
        "keep * levels[t - 1].clone()",
        "keep.detach() * levels[t - 1]",
        "keep.item() * levels[t - 1]",
    ],
)
def test_writing_steps_raises__but_not_if_no_step_before_is_saved(
    snippet, step, fails
):
    edited = snippet.edit(
        "        levels[t] = keep * levels[t - 1]",
        f"        levels[t] = {step}",
    ).edit("    return levels.sum()", "    return levels.sum() + 0 * keep")
    fails(test_writing_steps_raises, edited, 4)


@pytest.mark.parametrize(
    "step",
    [
        "levels = torch.cat([levels[:t], (keep * levels[t - 1]).view(1),"
        " levels[t + 1 :]])",
        "levels = levels.index_fill(0, torch.tensor(t), 0) + nn.functional"
        ".one_hot(torch.tensor(t), steps) * keep * levels[t - 1]",
    ],
)
def test_writing_steps_raises__but_not_into_new_tensors(snippet, step, fails):
    edited = snippet.edit("levels[t] = keep * levels[t - 1]", step)
    fails(test_writing_steps_raises, edited, 4)


@pytest.mark.parametrize("steps", [2, 3, 4, 9])
def test_a_list_of_steps_trains(snippet, steps):
    with no_error():
        run = snippet.after("steps-in-a-list")
    assert run.keep.grad == 1 + 2 * 0.5 + 3 * 0.5**2

    for k in (0.5, 2.0):
        keep = torch.tensor(k, requires_grad=True)
        run.collected(keep, steps).backward()
        assert keep.grad == sum(t * k ** (t - 1) for t in range(1, steps))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(keep * levels[t - 1])", "(keep * levels[t - 1].detach())"),
        ("(keep * levels[t - 1])", "(keep * levels[0])"),
        ("torch.stack(levels)", "torch.stack(levels[:-1])"),
    ],
)
def test_a_list_of_steps_trains__but_not_if_cut(snippet, old, new, fails):
    fails(test_a_list_of_steps_trains, snippet.edit(old, new), 4)


# A step between two backward passes


OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"]


LAYERS = "nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))"


def with_optimizer(snippet, name):
    """Return the snippet with another optimizer."""
    if name == "SGD":
        return snippet
    return snippet.edit("torch.optim.SGD", f"torch.optim.{name}")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_between_raises(snippet, name):
    run = with_optimizer(snippet, name).after("two-losses")

    page = with_optimizer(snippet, name).after("step-between")
    assert MODIFIED in str(page.said)
    for options in ({}, {"foreach": True}, {"foreach": False}):
        said = error_of(
            lambda: run.two_losses(step_between=True, **options)  # noqa: B023
        )
        assert MODIFIED in said


def test_a_step_between_raises__but_not_after_both(snippet, fails):
    edited = snippet.edit(
        "    if step_between:\n        optimizer.step()\n", ""
    ).edit(
        "    output.square().sum().backward()\n",
        "    output.square().sum().backward()\n    optimizer.step()\n",
    )
    fails(test_a_step_between_raises, edited, "SGD")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_between_raises__but_not_with_a_new_forward_pass(
    snippet, name, fails
):
    edited = snippet.edit(
        "    output.square()", "    model(torch.ones(2, 3)).square()"
    )
    fails(test_a_step_between_raises, edited, name)


@pytest.mark.parametrize(
    "model",
    [
        "nn.Linear(3, 4)",
        "nn.Sequential(nn.Linear(3, 4).requires_grad_(False),"
        " nn.Linear(4, 1))",
    ],
)
def test_a_step_between_raises__but_not_if_no_layer_learns_before(
    snippet, model, fails
):
    fails(test_a_step_between_raises, snippet.edit(LAYERS, model), "SGD")


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "steps",
    [
        "if step_between and not options.get('foreach'):",
        "if step_between and options.get('foreach', True):",
    ],
)
def test_a_step_between_raises__but_not_with_a_foreach_that_takes_none(
    snippet, name, steps, fails
):
    edited = snippet.edit("if step_between:", steps)
    fails(test_a_step_between_raises, edited, name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_between_raises__but_not_if_only_the_first_layer_steps(
    snippet, name, fails
):
    edited = snippet.edit("model.parameters()", "model[0].parameters()")
    fails(test_a_step_between_raises, edited, name)


@pytest.mark.parametrize(
    "name", [each for each in OPTIMIZERS if "RMS" not in each]
)
def test_a_step_between_raises__but_not_fused(snippet, name, fails):
    edited = snippet.edit("lr=1.0, **options)", "lr=1.0, fused=True)")
    fails(test_a_step_between_raises, edited, name)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(
    "inputs", ["torch.ones(3)", "torch.ones(2, 5, 3)", "torch.ones(1, 3)"]
)
def test_a_step_between_raises__also_for_other_inputs(snippet, name, inputs):
    edited = snippet.edit("torch.ones(2, 3)", inputs)
    test_a_step_between_raises(edited, name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_between_raises__also_for_wider_layers(snippet, name):
    edited = snippet.edit(
        "nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))",
        "nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 5))",
    )
    test_a_step_between_raises(edited, name)


@pytest.mark.parametrize(("wide", "out"), [(4, 1), (6, 2)])
@pytest.mark.parametrize("shape", ["(2, 3)", "(3,)", "(2, 5, 3)"])
def test_the_weight_is_turned_over(snippet, wide, out, shape):
    new = f"nn.Sequential(nn.Linear(3, {wide}), nn.Linear({wide}, {out}))"
    edited = snippet if wide == 4 else snippet.edit(LAYERS, new)
    if shape != "(2, 3)":
        edited = edited.edit("torch.ones(2, 3)", f"torch.ones{shape}")
    run = edited.after("two-losses")

    said = error_of(lambda: run.two_losses(step_between=True))

    assert nn.Linear(wide, out).weight.shape == (out, wide)
    assert f"[torch.FloatTensor [{wide}, {out}]]" in said


def test_the_weight_is_turned_over__but_not_of_another_layer(snippet, fails):
    edited = snippet.edit(
        "nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))",
        "nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))",
    )
    fails(test_the_weight_is_turned_over, edited, 4, 1, "(2, 3)")


def test_the_weight_is_turned_over__but_not_of_a_layer_that_turns_nothing(
    snippet, fails
):
    edited = snippet.edit(
        "output = model(torch.ones(2, 3))",
        "output = (model[1].weight * model[0](torch.ones(2, 3))).sum(1)",
    )
    fails(test_the_weight_is_turned_over, edited, 4, 1, "(2, 3)")


FUSED = ["SGD", "Adam", "AdamW", "Adagrad"]


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_is_silent(snippet, name):
    run = with_optimizer(snippet, name).after("two-losses")
    right = run.two_losses(step_between=False)
    with no_error():
        page = with_optimizer(snippet, name).after("step-fused")
    first, gone = page.right[0], page.wrong[0]
    assert torch.equal(first.weight.grad, right[0].weight.grad)
    assert not torch.equal(first.weight, gone.weight)
    assert not torch.allclose(first.weight.grad, gone.weight.grad)
    torch.manual_seed(0)
    model = eval(LAYERS, {"nn": nn})
    model(torch.ones(2, 3)).square().sum().backward()
    for options in ({}, {"weight_decay": 0.1}, *FUSED_OPTIONS[name]):
        with no_error():
            wrong = run.two_losses(step_between=True, fused=True, **options)

        for unstepped, each in zip(
            right.parameters(), model.parameters(), strict=True
        ):
            assert torch.equal(unstepped.grad, each.grad)
        for moved, each in zip(
            wrong.parameters(), right.parameters(), strict=True
        ):
            assert not torch.equal(moved, each)
            assert moved._version == each._version
        for moved, each in zip(
            wrong[0].parameters(), right[0].parameters(), strict=True
        ):
            assert not torch.allclose(moved.grad, each.grad)


FUSED_OPTIONS = {
    "SGD": [{"momentum": 0.9}, {"maximize": True}],
    "Adam": [{"amsgrad": True}],
    "AdamW": [{"amsgrad": True}],
    "Adagrad": [{"lr_decay": 0.1}],
}


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "        optimizer.step()\n",
            "        optimizer.step()\n"
            "        torch.no_grad()(model[0].weight.mul_)(1)\n",
        ),
        ("model.parameters()", "model[0].parameters()"),
        ("lr=1.0", "lr=0.0"),
    ],
)
def test_a_fused_step_is_silent__but_not_with_a_version_raised_or_no_move(
    snippet, name, old, new, fails
):
    fails(test_a_fused_step_is_silent, snippet.edit(old, new), name)


@pytest.mark.parametrize("name", FUSED)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LAYERS, "nn.Sequential(nn.Linear(3, 9), nn.Linear(9, 5))"),
        ("torch.manual_seed(0)", "torch.manual_seed(3)"),
    ],
    ids=["other widths", "another seed"],
)
def test_a_fused_step_is_silent__also_with(snippet, name, old, new):
    run = with_optimizer(snippet.edit(old, new), name).after("two-losses")
    right = run.two_losses(step_between=False)

    wrong = run.two_losses(step_between=True, fused=True)

    for moved, each in zip(
        wrong[0].parameters(), right[0].parameters(), strict=True
    ):
        assert moved._version == each._version
        assert not torch.allclose(moved.grad, each.grad)


@pytest.mark.parametrize("name", FUSED)
def test_a_fused_step_is_silent__but_not_unfused(snippet, name, fails):
    edited = snippet.edit(
        "lr=1.0, **options)", "lr=1.0, **(options | {'fused': False}))"
    )
    fails(test_a_fused_step_is_silent, edited, name)


def test_a_fused_step_is_silent__but_right_after_both(snippet, fails):
    edited = snippet.edit(
        "    if step_between:\n        optimizer.step()\n", ""
    ).edit(
        "    output.square().sum().backward()\n",
        "    output.square().sum().backward()\n    optimizer.step()\n",
    )
    fails(test_a_fused_step_is_silent, edited, "SGD")


# What stays silent


WRITES = ["growth.data.{}", "growth.detach().numpy().{}"]


@pytest.mark.parametrize("way", WRITES)
def test_data_is_silent(snippet, way):
    text = way.format("fill(9)" if "numpy" in way else "fill_(9)")
    if way != WRITES[0]:
        snippet = snippet.edit("growth.data.fill_(9)", text)
    with no_error():
        run = snippet.after("data")

    assert run.growth._version == 0
    assert run.rate.grad.tolist() == [9, 9, 9]
    assert (run.rate.exp() < 2).all()
    for number in (2.0, 7.0):
        rate = ready()
        growth = rate.exp()
        numbers = {"growth": growth}
        with no_error():
            fill = f"fill({number})" if "numpy" in way else f"fill_({number})"
            eval(way.format(fill), numbers)
            growth.sum().backward()
        assert growth._version == 0
        assert rate.grad.tolist() == [number] * 3


@pytest.mark.parametrize("way", WRITES)
def test_data_is_silent__but_not_for_a_result_that_is_not_saved(
    snippet, way, fails
):
    edited = snippet.edit(
        "growth = rate.exp()\ngrowth.data",
        "growth = rate.exp() * 1\ngrowth.data",
    )
    fails(test_data_is_silent, edited, way)


@pytest.mark.parametrize(
    "way", ["growth.data.clone().{}", "growth.detach().clone().numpy().{}"]
)
def test_data_is_silent__but_right_if_a_copy_is_overwritten(
    snippet, way, fails
):
    fails(test_data_is_silent, snippet, way)


def test_data_is_silent__but_not_a_detached_tensor(snippet, fails):
    edited = snippet.edit("growth.data.fill_(9)", "growth.detach().fill_(9)")
    fails(test_data_is_silent, edited, WRITES[0])


@pytest.mark.parametrize("change", ["growth += 1", "growth[1:] += 1"])
def test_hooks_do_not_check(snippet, change):
    if change != "growth += 1":
        before = "growth = rate.exp()\n{}\ngrowth.sum().backward()\n\nprint"
        snippet = snippet.edit(
            f"    {before.format('growth += 1')}",
            f"    {before.format(change)}",
        )
    with no_error():
        run = snippet.after("hooks")

    assert torch.equal(run.rate.grad, run.growth)
    assert not torch.equal(run.growth, run.rate.exp())
    assert (run.growth >= run.rate.exp()).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("with torch.autograd.graph.save_on_cpu():\n", "if True:\n"),
        (
            "    growth = rate.exp()\ngrowth += 1\n",
            "    growth = rate.exp()\ngrowth = growth + 1\n",
        ),
    ],
)
def test_hooks_do_not_check__but_not_otherwise(snippet, old, new, fails):
    fails(test_hooks_do_not_check, snippet.edit(old, new), "growth += 1")


@pytest.mark.skipif(
    torch.accelerator.is_available(), reason="pinning needs an accelerator"
)
def test_hooks_do_not_check__ends_where_pinning_raises(snippet, fails):
    edited = snippet.edit("save_on_cpu()", "save_on_cpu(pin_memory=True)")
    fails(test_hooks_do_not_check, edited, "growth += 1")


def test_a_skip_connection_is_silent(snippet):
    with no_error():
        run = snippet.after("skip-connection")

    for shape in ((3,), (4, 3), (2, 5, 3)):
        for bias in (True, False):
            layer, start = nn.Linear(3, 4, bias=bias), torch.randn(shape)
            with no_error():
                output = run.skip(layer(start))
                output.sum().backward()
            assert torch.equal(output, 2 * layer(start).relu())
            assert layer.weight.grad is not None
    assert run.hidden.tolist() == [2, 0]


@pytest.mark.parametrize(
    "before",
    ["hidden = hidden.tanh()", "hidden = hidden.detach().requires_grad_()"],
)
def test_a_skip_connection_is_silent__but_not_behind_tanh_or_a_leaf(
    snippet, before, fails
):
    edited = snippet.edit(
        "    return hidden + nn", f"    {before}\n    return hidden + nn"
    )
    fails(test_a_skip_connection_is_silent, edited)


def test_a_skip_connection_is_silent__but_not_if_hidden_was_saved(
    snippet, fails
):
    edited = snippet.edit(
        "return hidden + nn", "return 0 * hidden.square() + hidden + nn"
    )
    fails(test_a_skip_connection_is_silent, edited)


def test_a_skip_connection_is_silent__but_not_out_of_place(snippet, fails):
    edited = snippet.edit("(hidden, inplace=True)", "(hidden)")
    fails(test_a_skip_connection_is_silent, edited)


def test_a_skip_connection_is_silent__but_not_behind_a_copy(snippet, fails):
    edited = snippet.edit(
        "relu(hidden, inplace=True)", "relu(hidden.clone(), inplace=True)"
    )
    fails(test_a_skip_connection_is_silent, edited)


# Where it ends


torch.manual_seed(0)
FINE = {
    "Linear": (nn.Linear(3, 4), (2, 3)),
    "Conv1d": (nn.Conv1d(3, 2, 2), (2, 3, 4)),
    "BatchNorm1d": (nn.BatchNorm1d(3), (5, 3)),
    "LayerNorm": (nn.LayerNorm(3), (2, 3)),
    "Dropout": (nn.Dropout(0.5), (4, 4)),
    "Linear, float64": (nn.Linear(3, 4).double(), (2, 3)),
    "Linear, one sample": (nn.Linear(3, 4), (3,)),
}


@pytest.mark.parametrize("name", FINE)
def test_relu_in_place_is_fine(snippet, name):
    run = snippet.after("relu-behind-all")
    layer, shape = FINE[name]
    dtype = next((p.dtype for p in layer.parameters()), torch.float32)
    torch.manual_seed(4)
    numbers = torch.randn(shape, dtype=dtype, requires_grad=True)

    learning, made = [numbers, *layer.parameters()], []
    layer.zero_grad()

    hook = layer.register_forward_hook(lambda *those: made.append(those[2]))
    torch.manual_seed(3)
    assert run.relu_behind(layer, numbers) == "trains"
    hook.remove()
    in_place = [each.grad for each in learning]
    numbers.grad = None
    layer.zero_grad()
    torch.manual_seed(3)
    F.relu(layer(numbers)).sum().backward()

    assert (made[0] >= 0).all()
    for grad, each in zip(in_place, learning, strict=True):
        assert grad is not None
        assert torch.equal(grad, each.grad)
    named = name.partition(",")[0]
    assert named == "Conv1d" or run.outcomes[named] == "trains"


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(layer(numbers), inplace=True)", "(layer(numbers))"),
        ("inplace=True).sum()", "inplace=True).square().sum()"),
    ],
)
def test_relu_in_place_is_fine__but_not_out_of_place_or_for_another_loss(
    snippet, name, old, new, fails
):
    fails(test_relu_in_place_is_fine, snippet.edit(old, new), name)


@pytest.mark.parametrize(
    "name", [each for each, those in FINE.items() if [*those[0].parameters()]]
)
def test_relu_in_place_is_fine__but_not_with_a_frozen_layer(
    snippet, name, fails
):
    edited = snippet.edit(
        "    try:\n        nn.functional.relu(layer(numbers)",
        "    weights = {n: w.detach() for n, w in layer.named_parameters()}\n"
        "    call = torch.func.functional_call\n"
        "    try:\n        nn.functional.relu(call(layer, weights, numbers)",
    )
    fails(test_relu_in_place_is_fine, edited, name)


@pytest.mark.parametrize("name", FINE)
@pytest.mark.parametrize(
    "other", ["layer(numbers).exp()", "2 * layer(numbers)"]
)
def test_relu_in_place_is_fine__but_not_further_behind(
    snippet, name, other, fails
):
    edited = snippet.edit("relu(layer(numbers)", f"relu({other}")
    fails(test_relu_in_place_is_fine, edited, name)


RAISING = {
    "Sigmoid": nn.Sigmoid(),
    "Tanh": nn.Tanh(),
    "Softmax": nn.Softmax(dim=-1),
    "ReLU": nn.ReLU(),
}


@pytest.mark.parametrize("name", RAISING)
def test_relu_in_place_raises(snippet, name):
    run = snippet.after("relu-behind-all")

    for shape in ((3,), (2, 3), (2, 3, 4)):
        for dtype in DTYPES:
            numbers = torch.rand(shape, dtype=dtype, requires_grad=True)
            assert run.relu_behind(RAISING[name], numbers) == "raises"
    assert run.outcomes[name] == "raises"


@pytest.mark.parametrize("name", RAISING)
@pytest.mark.parametrize(
    "other", ["layer(numbers) * 1", "layer(numbers).clone()"]
)
def test_relu_in_place_raises__but_not_behind_a_copy(
    snippet, name, other, fails
):
    edited = snippet.edit("relu(layer(numbers)", f"relu({other}")
    fails(test_relu_in_place_raises, edited, name)


@pytest.mark.parametrize("name", RAISING)
def test_relu_in_place_raises__but_not_an_ordinary_one(snippet, name, fails):
    edited = snippet.edit(
        "relu(layer(numbers), inplace=True)", "relu(layer(numbers))"
    )
    fails(test_relu_in_place_raises, edited, name)
