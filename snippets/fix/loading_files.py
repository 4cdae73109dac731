"""
A model or a checkpoint does not load
=====================================

Files that hold no model, or not all of it, and what `torch` says of each.
"""

# %% said
import tempfile
from pathlib import Path

import torch


def said(content, **options):
    """Return what `torch.load` says of a file with these bytes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.pt")
        path.write_bytes(content)
        try:
            torch.load(path, **options)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


# %% no-pickle
pointer = b"version https://git-lfs.github.com/spec/v1\n"
page = b"<!DOCTYPE html><title>Sign in</title>"

print(said(pointer))
print(said(pointer, weights_only=False))
print(said(page).partition("error: ")[2].splitlines()[2])

# %% saved
import io

weights = {"weight": torch.ones(100_000)}


def saved(**options):
    file = io.BytesIO()
    torch.save(weights, file, **options)
    return file.getvalue()


now = saved()
before = saved(_use_new_zipfile_serialization=False)  # before torch 1.6

# %% cut
for content in (now[:-1], before[:-1], b""):
    print(said(content, weights_only=False), end="\n\n")

# %% other-kind
from torch import nn
from torch.jit.mobile import _load_for_lite_interpreter

layer = nn.Linear(2, 2)
stored = {"save": io.BytesIO(), "script": io.BytesIO()}
torch.save(layer.state_dict(), stored["save"])
torch.jit.save(torch.jit.script(layer), stored["script"])

missed = {}
for kind, load in [
    ("save", torch.jit.load),
    ("script", _load_for_lite_interpreter),
]:
    stored[kind].seek(0)
    try:
        load(stored[kind])
        missed[kind] = ""
    except RuntimeError as error:
        missed[kind] = str(error).partition(". ")[0]
    print(missed[kind])

# %% no-model
from torch import nn

trained = nn.Linear(2, 1)
file = io.BytesIO()
torch.save(trained.state_dict(), file)
file.seek(0)

model = torch.load(file)
try:
    model.eval()
except AttributeError as error:
    print(error, end="\n\n")

# %% build-first
loaded = nn.Linear(2, 1)
loaded.load_state_dict(model)
loaded.eval()

x = torch.tensor([1.0, 2.0])
print(trained(x).item(), loaded(x).item())

# %% whole-checkpoint
checkpoint = {"model": trained.state_dict(), "epoch": 3}
fresh = nn.Linear(2, 1)
begun = fresh.weight.clone()

try:
    fresh.load_state_dict(checkpoint)
except RuntimeError as error:
    print(error)

fresh.load_state_dict(checkpoint, strict=False)
print("still the same:", begun.tolist() == fresh.weight.tolist())

fresh.load_state_dict(checkpoint["model"])
print("as trained:", trained.weight.tolist() == fresh.weight.tolist())

# %% full
import errno
import os

failed = errno.ENOSPC


class FullDisk(io.BytesIO):
    def write(self, content):
        if self.tell() + len(content) > 500:
            raise OSError(failed, os.strerror(failed))
        return super().write(content)


try:
    torch.save(weights, FullDisk())
except RuntimeError as error:
    print(error, end="\n\n")
    print("before it:", error.__context__)
