"""Each piece of the cheat sheet runs alone, with the names above it."""

import re
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from extensions.core.topics import ROOT, Topic
from extensions.programs.snippet import Snippet, fresh_start, reset_torch

PAGE = (ROOT / "docs/cheat_sheet.md").read_text()
LINES = PAGE.partition("## Lines to copy")[2].partition("\n## ")[0]
INTRO, _, _ = LINES.strip().partition("\n\n")
PIECES = re.findall(r"(.+):\n\n```{cell} (.+)\n:from: (.+)\n", LINES)


def theirs():
    """Return what readers have, small, by the names that they give it."""
    labels = torch.arange(100) % 10
    digits = TensorDataset(torch.rand(100, 64), labels)
    loader = DataLoader(digits, batch_size=50)

    def build():
        model = nn.Linear(64, 10)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 1)

    model, optimizer, scheduler = build()
    return {
        "build": build,
        "model": model,
        "optimizer": optimizer,
        "scheduler": scheduler,
        "loader": loader,
        "device": "cpu",
        "encoder": nn.Linear(64, 10),
        "epoch": 3,
        "epochs": 2,
        "images": torch.rand(9, 8, 8),
        "path": Path("kept.pt"),
        "photos": torch.rand(2, 6, 5, 3),
        "train_loader": loader,
        "train_set": digits,
        "val_loader": loader,
        "val_set": digits,
    }


@pytest.fixture(autouse=True)
def reset():
    """Take back what a piece has set for the whole process."""
    yield
    reset_torch({}, "")


def run(words, cell, topic):
    """Run a piece, in this folder, and return its variables."""
    has, variables = theirs(), {"__name__": "__main__"}
    for code in re.findall("`(.+?)`", f"{INTRO} {words}"):
        if "import" in code:
            exec(code, variables)
        elif code in has:
            variables[code] = has[code]
    program = Snippet.read(Topic(ROOT, topic).snippet)
    exec(program.cell(cell).source, variables)
    return variables


@pytest.mark.parametrize("piece", PIECES, ids=lambda piece: piece[0])
def test_a_piece_runs_with_what_stands_above_it(piece):
    with fresh_start():
        run(*piece)


def test_what_is_saved_is_resumed():
    save, resume = (
        next(piece for piece in PIECES if piece[1] == name)
        for name in ("save", "resume")
    )
    with fresh_start():
        saved = run(*save)
        resumed = run(*resume)
    assert resumed["start"] == saved["epoch"] + 1
    assert torch.equal(resumed["model"].weight, saved["model"].weight)


def test_each_piece_has_words():
    assert len(PIECES) == LINES.count("```{cell}")
