"""
Get a gradient for each sample
==============================

Gradients of single samples, Jacobians, Hessians and ensembles by torch.func.
"""

# %% digits
import warnings

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

# jacfwd, jvp and hessian load a part of torch that still uses torch.jit.
warnings.filterwarnings("ignore", "`torch.jit")

torch.manual_seed(0)
data = load_digits()
images = torch.tensor(data.images, dtype=torch.float32).flatten(1) / 16
labels = torch.tensor(data.target)  # N

wrong = torch.zeros(len(labels), dtype=torch.bool)
wrong[torch.randperm(len(labels))[:90]] = True
labels[wrong] = (labels[wrong] + torch.randint(1, 10, (90,))) % 10

model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    F.cross_entropy(model(images), labels).backward()
    optimizer.step()

# %% per-sample
params = {name: p.detach() for name, p in model.named_parameters()}


def loss_of(params, image, label):  # one image, one label
    scores = functional_call(model, params, (image,))
    return F.cross_entropy(scores, label)


gradients = vmap(grad(loss_of), in_dims=(None, 0, 0))(params, images, labels)

# %% shapes
print({name: tuple(each.shape) for name, each in gradients.items()})


# %% largest
def norm_of(gradients):  # of all parameters together
    return torch.cat([each.flatten() for each in gradients.values()]).norm()


norms = vmap(norm_of)(gradients)
suspects = norms.topk(90).indices
print("wrong labels among the 90 largest gradients:", wrong[suspects].sum())

# %% suspects
import matplotlib.pyplot as plt

figure, axes = plt.subplots(1, 8, figsize=(7, 1.5), layout="constrained")
for ax, place in zip(axes, suspects[:8], strict=True):
    ax.imshow(images[place].reshape(8, 8).numpy(), cmap="Greys")
    color = "#D55E00" if wrong[place] else "#0072B2"
    ax.set_title(f"{labels[place]}", color=color, fontweight="bold")
    ax.axis("off")
figure.suptitle(
    "The largest gradients, with the label (orange: we changed it)"
)
plt.show()

# %% largest-losses
losses = F.cross_entropy(model(images), labels, reduction="none")
by_loss = losses.topk(90).indices
print("wrong labels among the 90 largest losses:", wrong[by_loss].sum())

# %% pulls
table = torch.cat([each.flatten(1) for each in gradients.values()], dim=1)
pull, others = table[wrong].sum(dim=0), table[~wrong].sum(dim=0)

print("90 wrong labels:", pull.norm())
print("1,707 right labels:", others.norm())
print("cosine of the angle:", F.cosine_similarity(pull, others, dim=0))

# %% by-hand
w = torch.tensor(3.0)
x, y = torch.tensor([1.0, 2.0]), torch.tensor([5.0, 4.0])


def square(w, x, y):
    return (w * x - y) ** 2


each_gradient = vmap(grad(square), in_dims=(None, 0, 0))(w, x, y)
mean_gradient = grad(lambda w: square(w, x, y).mean())(w)
print("each sample:", each_gradient, "mean loss:", mean_gradient)


# %% norms-only
def norm_of_sample(params, image, label):
    return norm_of(grad(loss_of)(params, image, label))


in_chunks = vmap(norm_of_sample, in_dims=(None, 0, 0), chunk_size=100)
chunked_norms = in_chunks(params, images, labels)

# %% jacobian
from torch.func import jacfwd, jacrev


def scores_of(image):
    return functional_call(model, params, (image,))


jacobian = jacrev(scores_of)(images[0])
forward = jacfwd(scores_of)(images[0])
older = torch.autograd.functional.jacobian(scores_of, images[0])
print(jacobian.shape, forward.shape, older.shape, sep="\n")

# %% multiplications
from torch.utils.flop_counter import FlopCounterMode


def multiplications(function, x):
    with FlopCounterMode(display=False) as counter:
        function(x)
    return counter.get_total_flops() // 2  # it counts each sum, too


# %% cost
def costs_of(inputs, outputs):
    weight, x = torch.rand(inputs, outputs), torch.rand(1, inputs)

    def layer(x):
        return x @ weight

    ways = {"layer": layer, "jacrev": jacrev(layer), "jacfwd": jacfwd(layer)}
    return {name: multiplications(way, x) for name, way in ways.items()}


many_inputs, many_outputs = costs_of(64, 10), costs_of(2, 64)
print("64 inputs, 10 outputs:", many_inputs)
print("2 inputs, 64 outputs:", many_outputs)

# %% batch
few = images[:5]
whole = jacrev(scores_of)(few)
blocks = vmap(jacrev(scores_of))(few)

print("all at once:", whole.shape, f"{(whole == 0).float().mean():.0%} zeros")
print("vmap:", blocks.shape)

# %% batch-drawn
import matplotlib.pyplot as plt
from matplotlib.colors import ListedColormap

fig, ax = plt.subplots(figsize=(6, 1.8), layout="constrained")
not_zero = whole.abs().amax(dim=1).reshape(5, 5 * 64) > 0
ax.pcolormesh(not_zero.flip(0), cmap=ListedColormap(["#DDDDDD", "#0072B2"]))
ax.set(title="Image 1's scores depend on image 1 alone (gray: zeros)")
ax.set_xticks(range(32, 320, 64), [f"image {i + 1}" for i in range(5)])
rows = [f"scores {5 - i}" for i in range(5)]
ax.set_yticks([i + 0.5 for i in range(5)], rows)
plt.show()

# %% hessian
from torch.func import hessian, jvp, vjp

curvature = hessian(lambda w: square(w, x, y).mean())(w)
print("second derivative:", curvature)

# %% products
weight = params["2.weight"]  # 10 x 32
direction = torch.rand_like(weight)


def loss_by(weight):
    changed = {**params, "2.weight": weight}
    return F.cross_entropy(functional_call(model, changed, (images,)), labels)


_, curved = jvp(grad(loss_by), (weight,), (direction,))
print("Hessian @ direction:", curved.shape)

_, change = jvp(scores_of, (images[0],), (torch.ones(64),))  # J @ ones
_, pull_back = vjp(scores_of, images[0])
[pulled] = pull_back(torch.ones(10))  # ones @ J
print("J @ ones:", change.shape, "ones @ J:", pulled.shape)

# %% ensemble
from torch.func import stack_module_state

models = [nn.Linear(64, 10) for _ in range(5)]
stacked, buffers = stack_module_state(models)
optimizer = torch.optim.SGD(stacked.values(), lr=0.5)


def run(params, buffers, images):
    return functional_call(models[0], (params, buffers), (images,))


run_all = vmap(run, in_dims=(0, 0, None))
for _ in range(10):
    scores = run_all(stacked, buffers, images)  # 5 x N x 10
    losses = vmap(F.cross_entropy, in_dims=(0, None))(scores, labels)
    optimizer.zero_grad()
    losses.sum().backward()
    optimizer.step()
print("losses:", losses.detach())

# %% looped
from copy import deepcopy

looped = deepcopy(models)  # the models themselves have not moved
for each in looped:
    optimizer = torch.optim.SGD(each.parameters(), lr=0.5)
    for _ in range(10):
        loss = F.cross_entropy(each(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

trained = stacked["weight"][4]
print("as in the loop:", torch.allclose(trained, looped[4].weight, atol=1e-4))
print("as in the model:", torch.allclose(trained, models[4].weight, atol=1e-4))

# %% take-back
for i, each in enumerate(models):
    each.load_state_dict({name: p[i] for name, p in stacked.items()})


# %% no-grad
# Wrong on purpose: do not copy.
def silent_loss(params, image, label):
    with torch.no_grad():
        return loss_of(params, image, label)


silenced = grad(silent_loss)(params, images[0], labels[0])
with torch.no_grad():
    around = grad(loss_of)(params, images[0], labels[0])
print("inside:", norm_of(silenced), "around:", norm_of(around))

# %% item
# Wrong on purpose: do not copy.
half = grad(lambda w: w * w.item())(w)  # w * w has the gradient 6
print("gradient:", half)


# %% error-of
def error_of(function, *args, **options):
    try:
        function(*args, **options)
    except (RuntimeError, ValueError) as error:
        return str(error)
    return "no error"


# %% misnamed
# Wrong on purpose: do not copy.
renamed = {name.replace(".", "_"): p for name, p in params.items()}
unseen = grad(loss_of)(renamed, images[0], labels[0])
print("norm:", norm_of(unseen))

strictly = error_of(functional_call, model, renamed, images[0], strict=True)
print(strictly)


# %% closed-over
# Wrong on purpose: do not copy.
def loss_of_image(image, label):
    return F.cross_entropy(model(image), label)


model.zero_grad()
by_image = vmap(grad(loss_of_image))(images, labels)
print("gradient:", by_image.shape, ".grad:", model[0].weight.grad)

# %% class-weights
weights = torch.ones(10)
weights[labels[0]] = 100


def weighted(params, image, label, reduction):
    scores = functional_call(model, params, (image,))
    return F.cross_entropy(scores, label, weights, reduction=reduction)


times = {}  # the gradient without weights
for reduction in ("mean", "sum"):
    heavy = grad(weighted)(params, images[0], labels[0], reduction)
    times[reduction] = norm_of(heavy) / norms[0]
print("times as large as without weights:", times)


# %% batch-norm
pixels = images[:5].reshape(5, 1, 8, 8)
net = nn.Sequential(
    nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 10)
)


def net_loss(params, image, label):
    scores = functional_call(net, params, (image[None],))  # a batch of one
    return F.cross_entropy(scores, label[None])


net_params = {name: p.detach() for name, p in net.named_parameters()}
each_loss = vmap(net_loss, in_dims=(None, 0, 0))
each_grad = vmap(grad(net_loss), in_dims=(None, 0, 0))
sample_args = net_params, pixels, labels[:5]

no_batch = error_of(vmap(net), pixels)
loss_error = error_of(each_loss, *sample_args)
grad_error = error_of(each_grad, *sample_args)
print(no_batch, loss_error, grad_error, sep="\n\n")

# %% evaluated
net.eval()
net_gradients = each_grad(*sample_args)

# %% replaced
# Wrong on purpose: do not copy.
before = net(pixels)
torch.func.replace_all_batch_norm_modules_(net)
after = net(pixels)  # still in eval mode
print("largest change:", (after - before).abs().max().item())

# %% dropout
ones = torch.ones(3, 6)
dropout_error = error_of(vmap(F.dropout), ones)
print(dropout_error)

different = vmap(F.dropout, randomness="different")(ones)
same = vmap(F.dropout, randomness="same")(ones)
print("different:", different, "same:", same, sep="\n")


# %% cannot
def item(row):
    return row / row.sum().item()


def branch(row):
    return row if row.sum() > 0 else -row


def write(row):
    result = torch.zeros(64)
    result[0] = row.sum()
    return result


def backward(row):
    loss = F.cross_entropy(model(row), labels[0])
    loss.backward()
    return loss


for function in (item, branch, write, backward):
    print(f"{function.__name__}: {error_of(vmap(function), images[:4])}")


# %% can
def write_new(row):
    result = row.new_zeros(64)  # one for each row
    result[0] = row.sum()
    return result


print(vmap(write_new)(images[:4])[:, 0])

# %% second-derivatives
curvatures = vmap(hessian(loss_of_image))(images[:3], labels[:3])
print(curvatures.shape)


# %% clip-each
def clipped_mean(gradients, limit):
    norms = vmap(norm_of)(gradients)
    factors = (limit / norms).clamp(max=1)
    return {
        name: torch.einsum("n,n...->...", factors, each) / len(norms)
        for name, each in gradients.items()
    }


# %% clip-each-checked
limit = 1.0
clipped = clipped_mean(gradients, limit)
shares = (limit / norms).clamp(max=1)
if [each.shape for each in clipped.values()] != [
    p.shape for p in params.values()
]:
    print("Not yet: the result has one gradient for each parameter")
elif not torch.allclose(
    torch.cat([each.flatten() for each in clipped.values()]),
    shares @ table / len(table),
    atol=1e-5,
):
    print("Not yet: scale a sample's gradients by their norm taken together")
else:
    print("Right: no sample pulls with a norm above 1")

# %% as-documented
channels, groups = 4, 2
documented = nn.BatchNorm2d(channels, groups, track_running_stats=False)
print(documented)
