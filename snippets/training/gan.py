"""
Train a GAN
===========

Two models that train against each other: the loop, and what goes wrong.
"""

# %% flats
import torch
from torch import nn, optim

torch.manual_seed(0)
size = torch.randn(600)  # of apartments, scaled to mean 0, as their rents are
flats = torch.stack([size, 0.9 * size + 0.45 * torch.randn(600)], dim=1)


# %% models
def new_models(seed=0):
    torch.manual_seed(seed)
    generator = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    discriminator = nn.Sequential(
        nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 1)
    )
    return generator, discriminator


# %% optimizers
generator, discriminator = new_models()
g_optimizer = optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
d_optimizer = optim.Adam(
    discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999)
)
loss_of = nn.BCEWithLogitsLoss()
is_real, is_fake = torch.ones(64, 1), torch.zeros(64, 1)
d_losses, g_losses = [], []

# %% loop
for _ in range(1500):
    real = flats[torch.randint(len(flats), (64,))]
    fake = generator(torch.randn(64, 2))

    # 1. The discriminator learns to tell real from fake.
    d_loss = loss_of(discriminator(real), is_real)
    d_loss = d_loss + loss_of(discriminator(fake.detach()), is_fake)
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()

    # 2. The generator learns to pass its fakes off as real.
    g_loss = loss_of(discriminator(fake), is_real)
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()

    d_losses.append(d_loss.item())
    g_losses.append(g_loss.item())

# %% compare
with torch.no_grad():
    fakes = generator(torch.randn(600, 2))

for name, some in {"real": flats, "fake": fakes}.items():
    spread = some.std(dim=0).tolist()
    together = torch.corrcoef(some.T)[0, 1].item()
    print(f"{name}: spread {spread[0]:.1f} and {spread[1]:.1f},", end=" ")
    print(f"correlation {together:.1f}")

# %% fakes-drawn
import matplotlib.pyplot as plt

_, axes = plt.subplots(1, 2, figsize=(8, 3.2), sharex=True, sharey=True)
for ax, name, some in zip(axes, ("real", "fake"), (flats, fakes), strict=True):
    ax.scatter(*some.T, s=6)
    ax.set(title=f"{name} apartments", xlabel="size", ylabel="rent")
plt.show()


# %% sure
score = torch.tensor(-10.0, requires_grad=True)  # surely a fake
losses = {
    "as real": loss_of(score, torch.tensor(1.0)),
    "minus the discriminator's": -loss_of(score, torch.tensor(0.0)),
}
gradients = {}
for name, loss in losses.items():
    (gradient,) = torch.autograd.grad(loss, score)
    gradients[name] = gradient.item()
    print(f"{name}: gradient {gradient:.5f}")


# %% losses
def mean(losses):
    return sum(losses) / len(losses)


for start, stop in ((0, 100), (1400, 1500)):
    d, g = mean(d_losses[start:stop]), mean(g_losses[start:stop])
    print(f"steps {start} to {stop}: discriminator {d:.2f}, generator {g:.2f}")

# %% without-detach
# Wrong on purpose: do not copy.
fake = generator(torch.randn(64, 2))
d_loss = loss_of(discriminator(fake), is_fake)  # no detach
d_loss.backward()
g_loss = loss_of(discriminator(fake), is_real)
try:
    g_loss.backward()
except RuntimeError as error:
    print(error)

# %% too-early
# Wrong on purpose: do not copy.
fake = generator(torch.randn(64, 2))
scores = discriminator(fake)  # before the discriminator's step
d_loss = loss_of(discriminator(fake.detach()), is_fake)
d_optimizer.zero_grad()
d_loss.backward()
d_optimizer.step()
try:
    loss_of(scores, is_real).backward()
except RuntimeError as error:
    print(error)
