"""
Write your own backward
=======================

A function of NumPy gets a gradient, and a rounded weight gets a useful one.
"""

# %% cube-root
import numpy as np
import torch


class CubeRoot(torch.autograd.Function):
    @staticmethod
    def forward(volume):
        return torch.as_tensor(np.cbrt(volume.numpy()))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, grad_output):
        (edge,) = ctx.saved_tensors
        return grad_output / (3 * edge**2)


# %% edge
volume = torch.tensor(8.0, requires_grad=True)
edge = CubeRoot.apply(volume)
edge.backward()

print(edge, volume.grad)

# %% check
from torch.autograd import gradcheck, gradgradcheck

some = torch.tensor([8.0, 27.0], dtype=torch.float64, requires_grad=True)
print(gradcheck(CubeRoot.apply, some))

# %% by-hand
volume = torch.tensor(8.0, requires_grad=True)
loss = (CubeRoot.apply(volume) - 5) ** 2
loss.backward()

print(volume.grad)


# %% round
class Round(torch.autograd.Function):
    @staticmethod
    def forward(x, step):
        return (x / step).round() * step

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass  # backward needs nothing

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output, None  # for x, and for step


# %% round-one
weight = torch.tensor(4.0, requires_grad=True)
rounded = Round.apply(weight, 3.0)
(5 * rounded).backward()

print(rounded, weight.grad)

# %% digits
from sklearn.datasets import load_digits
from torch.nn import functional as F

digits = load_digits()
images = torch.tensor(digits.data / 16, dtype=torch.float32)
labels = torch.tensor(digits.target)

torch.manual_seed(0)
shuffled = torch.randperm(len(images))
valid, train = shuffled[:500], shuffled[500:]


def fit(rounding, seed=0):
    torch.manual_seed(seed)
    weights = (torch.randn(64, 10) / 10).requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=0.1)
    for _ in range(60):
        scores = images[train] @ rounding(weights)
        loss = F.cross_entropy(scores, labels[train])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return weights.detach()


def right_answers(weights):
    scores = images[valid] @ Round.apply(weights, 3.0)
    return (scores.argmax(dim=1) == labels[valid]).float().mean().item()


# %% rounded-weights
ways = {
    "rounded after training": lambda weights: weights,
    "(x / 3).round() * 3": lambda weights: (weights / 3).round() * 3,
    "Round.apply(x, 3)": lambda weights: Round.apply(weights, 3.0),
}
right = {name: right_answers(fit(rounding)) for name, rounding in ways.items()}

for name, share in right.items():
    print(f"{name:22} {share:.0%} right")


# %% error-of
def error_of(function, *inputs):
    try:
        function(*inputs)
    except Exception as error:
        return f"{type(error).__name__}: {error}".strip()
    return "no error"


# %% wrong-power
# Wrong on purpose: do not copy.
class WrongPower(CubeRoot):
    @staticmethod
    def backward(ctx, grad_output):
        (edge,) = ctx.saved_tensors
        return grad_output / (3 * edge)


wrong_power = error_of(gradcheck, WrongPower.apply, some)
print(wrong_power)

# %% float32
import warnings

in_float32 = torch.tensor([8.0, 27.0], requires_grad=True)
with warnings.catch_warnings(record=True, action="always") as caught:
    right_but_float32 = error_of(gradcheck, CubeRoot.apply, in_float32)

print(caught[0].message)
print(right_but_float32)


# %% misfits
# Wrong on purpose: do not copy.
def train_with(answer):
    class Misfit(Round):
        @staticmethod
        def backward(ctx, grad_output):
            return answer(grad_output)

    Misfit.apply(torch.ones(2, requires_grad=True), 3.0).sum().backward()


answers = {
    "one for two": lambda grad: grad,
    "another shape": lambda grad: (grad.sum(), None),
    "one for the number": lambda grad: (grad, grad),
}
said = {name: error_of(train_with, answers[name]) for name in answers}

for name, text in said.items():
    print(f"{name}: {text}")


# %% outputs
class EdgeAndCount(torch.autograd.Function):
    @staticmethod
    def forward(volume):
        edge = CubeRoot.forward(volume)
        return edge, edge.floor()  # and how many whole units fit along it

    @staticmethod
    def setup_context(ctx, inputs, output):
        edge, count = output
        ctx.save_for_backward(edge)
        ctx.mark_non_differentiable(count)

    @staticmethod
    def backward(ctx, grad_edge, grad_count):  # one for each output
        print("backward gets", grad_edge, grad_count)
        return CubeRoot.backward(ctx, grad_edge)


class Unmarked(EdgeAndCount):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output[0])


volume = torch.tensor(10.0, requires_grad=True)
edge, count = EdgeAndCount.apply(volume)
edge.backward()
said_of_count = error_of(count.backward)

_, unmarked = Unmarked.apply(volume)
slope_of_count = torch.autograd.grad(unmarked, volume)[0]
print(edge, count, volume.grad, slope_of_count, said_of_count, sep="\n")


# %% attribute
# Wrong on purpose: do not copy.
class EdgeAsAttribute(CubeRoot):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.edge = output

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output / (3 * ctx.edge**2)


# %% overwritten
def in_millimeters(function):
    volume = torch.tensor(8.0, requires_grad=True)
    edge = function.apply(volume)
    edge *= 10  # from centimeters
    edge.backward()
    return volume.grad


print("right:", 10 / (3 * 2**2))
print("attribute:", in_millimeters(EdgeAsAttribute))
print("save_for_backward:", error_of(in_millimeters, CubeRoot))

# %% leak
import gc
import weakref

gc.disable()  # the garbage collector would come at some time
kept = {}
for function in (EdgeAsAttribute, CubeRoot):
    edge = function.apply(torch.ones(1000, requires_grad=True))
    edge.sum().backward()
    watched = weakref.ref(edge)
    del edge
    kept[function.__name__] = "freed" if watched() is None else "still there"
gc.enable()

print(kept)


# %% numbers-saved
# Wrong on purpose: do not copy.
class SavesAll(Round):
    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)  # a tensor, and a number


weights = torch.ones(2, requires_grad=True)
said_of_number = error_of(SavesAll.apply, weights, 3.0)
print(said_of_number)


# %% as-it-is
# Wrong on purpose: do not copy.
class Passes(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x  # or a view, such as x.view_as(x) or x[0]

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, grad_output):
        return -grad_output


passed = Passes.apply(weights)
said_of_view = error_of(passed.add_, 1)
print(said_of_view)


# %% slope
# Wrong on purpose: do not copy.
class SlopeFromForward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, volume):
        edge = torch.as_tensor(np.cbrt(volume.numpy()))
        ctx.save_for_backward(1 / (3 * edge**2))
        return edge

    @staticmethod
    def backward(ctx, grad_output):
        (slope,) = ctx.saved_tensors
        return grad_output * slope


# %% second
def second_derivative(function, volume):
    face = function.apply(volume) ** 2
    (first,) = torch.autograd.grad(face.sum(), volume, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), volume)
    return second


volume = torch.tensor(8.0, requires_grad=True)
print("right:", second_derivative(CubeRoot, volume))
print("wrong:", second_derivative(SlopeFromForward, volume))

# %% curves
volumes = torch.linspace(2, 20, 50, requires_grad=True)
curves = {
    "edge saved, derivative in backward": second_derivative(CubeRoot, volumes),
    "derivative from forward": second_derivative(SlopeFromForward, volumes),
}

# %% curves-drawn
import matplotlib.pyplot as plt

fig, ax = plt.subplots(figsize=(6, 3.4))
for (name, values), color in zip(
    curves.items(), ("#0072B2", "#D55E00"), strict=True
):
    ax.plot(volumes.detach(), values, color=color, label=name)
ax.axhline(0, color="gray", linewidth=0.8)
ax.set_xlabel("volume")
ax.set_ylabel("derivative of the derivative")
ax.set_title("The same first derivative, the second with the wrong sign")
ax.legend()
fig.tight_layout()

# %% check-twice
first = error_of(gradcheck, SlopeFromForward.apply, some)
second = error_of(gradgradcheck, SlopeFromForward.apply, some)

print("gradcheck:", first)
print("gradgradcheck:", second.partition(",")[0])


# %% penalty
def penalized(function, volume):
    face = function.apply(volume) ** 2
    (first,) = torch.autograd.grad(face, volume, create_graph=True)
    return face + first**2


def penalized_gradient(function):
    volume = torch.tensor(8.0, requires_grad=True)
    return torch.autograd.grad(penalized(function, volume), volume)[0]


def curvature(function):
    return torch.autograd.functional.hessian(
        lambda volume: function.apply(volume) ** 2, torch.tensor(8.0)
    )


# %% once
from torch.autograd.function import once_differentiable


class Once(CubeRoot):
    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        return CubeRoot.backward(ctx, grad_output)


volume = torch.tensor(8.0, requires_grad=True)
raised = error_of(penalized(Once, volume).backward)
print(raised)

# %% once-silent
# Wrong on purpose: do not copy.
for function in (Once, CubeRoot):
    print(function.__name__, curvature(function), penalized_gradient(function))


# %% guard
class NeverTwice(CubeRoot):
    @staticmethod
    def backward(ctx, grad_output):
        if torch.is_grad_enabled():  # somebody wants the second derivative
            raise RuntimeError("CubeRoot has no second derivative")
        return CubeRoot.backward(ctx, grad_output)


calls = (curvature, penalized_gradient)
guarded = [error_of(call, NeverTwice) for call in calls]
print(*guarded, sep="\n")


# %% autocast
class MixedCubeRoot(CubeRoot):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(volume):
        return CubeRoot.forward(volume)


hidden = torch.tensor([8.0, 27.0], dtype=torch.bfloat16)
with torch.autocast("cpu"):
    without_cast = error_of(CubeRoot.apply, hidden)
    edges = MixedCubeRoot.apply(hidden)

print(without_cast)
print(edges, edges.dtype)


# %% custom-bwd
# Wrong on purpose: do not copy.
class MixedBackward(MixedCubeRoot):
    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, grad_output):
        return CubeRoot.backward(ctx, grad_output)


edge = MixedBackward.apply(torch.tensor(8.0, requires_grad=True))
custom_bwd = error_of(edge.backward)
print(custom_bwd)

# %% vmap-missing
rows = torch.tensor([[8.0, 27.0], [1.0, 64.0]])
no_rule = error_of(torch.vmap(CubeRoot.apply), rows)
no_setup = error_of(torch.func.grad(SlopeFromForward.apply), rows[0, 0])
print(no_rule)
print(no_setup)


# %% vmap
class CubeRootOfRows(CubeRoot):
    @staticmethod
    def vmap(info, in_dims, volume):
        return CubeRootOfRows.apply(volume), in_dims[0]


print(torch.vmap(CubeRootOfRows.apply)(rows))

# %% compile
compiled = torch.compile(lambda x: 5 * Round.apply(x, 3.0), backend="eager")
weight = torch.tensor(4.0, requires_grad=True)
compiled(weight).backward()
print(weight.grad)


# %% compile-overwritten
# Wrong on purpose: do not copy.
@torch.compile(backend="eager")
def edge_in_millimeters(volume):
    edge = CubeRoot.apply(volume)
    edge *= 10
    return edge


volume = torch.tensor(8.0, requires_grad=True)
edge_in_millimeters(volume).backward()
print(volume.grad)

# %% predict
weight = torch.tensor(1.8, requires_grad=True)
(Round.apply(weight, 1.0) ** 2).backward()
print(weight.grad)


# %% reverse
class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(x, strength):
        return x.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, ctx.strength = inputs

    @staticmethod
    def backward(ctx, grad_output):
        return -ctx.strength * grad_output, None


# %% reverse-checked
x = torch.tensor([1.0, 2.0], requires_grad=True)
reversed_x = Reverse.apply(x, 0.5)
(reversed_x * torch.tensor([3.0, 4.0])).sum().backward()
if reversed_x.tolist() != [1, 2]:
    print("Not yet: the numbers have to stay the same")
elif x.grad is None or x.grad.tolist() != [-1.5, -2]:
    print(f"Not yet: the gradient is {x.grad}, not -0.5 * [3, 4]")
else:
    print("Right: the numbers pass, and the gradient turns around")
