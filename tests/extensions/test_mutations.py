"""Each mutator changes one meaning, and leaves the rest where it is."""

from pathlib import Path

import pytest

from extensions.programs.snippet import Snippet
from tools.mutants.__main__ import outermost
from tools.mutants.mutations import mutations

HEAD = '"""\nTitle\n=====\n"""\n\n# %% start\n'


def made(code, head=HEAD):
    """Return the mutations of a program with one cell."""
    return mutations(Snippet(Path("one.py"), head + code))


def changes(code, kind):
    """Return what some mutations make of one line."""
    return [each.new for each in made(code) if each.kind == kind]


@pytest.mark.parametrize(
    ("kind", "old", "new"),
    [
        ("drop detach()", "y = x.detach()", "y = x"),
        ("drop abs()", "y = abs(a - b) * 2", "y = (a - b) * 2"),
        ("drop model()", "y = model(x)", "y = x"),
        ("drop keyword k", "y = f((a), k=(1), *b)", "y = f(a, *b)"),
        ("delete statement", "f(x)", "pass"),
        ("delete statement", "x.grad = None", "pass"),
        ("flip", "y = f(True)", "y = f(False)"),
        ("swap comparison", "y = (a) < b", "y = a >= b"),
        ("swap comparison", "y = a not in b", "y = a in b"),
        ("swap operator", "y = a**b", "y = a * b"),
        ("swap operator", "x += 1", "x -= 1"),
        ("change number", "y = x.sum(dim=1)", "y = x.sum(dim=0)"),
        ("change number", "y = x > 0.5", "y = x > -0.5"),
        ("swap sum", "y = x.sum()", "y = x.mean()"),
        ("swap all", "y = torch.all(x)", "y = torch.any(x)"),
        ("negate condition", "y = a if b else c", "y = a if not b else c"),
    ],
)
def test_a_mutator_changes_a_line(kind, old, new):
    assert new in changes(f"{old}\n", kind)


def test_a_with_is_left_and_its_body_stays():
    [mutation] = made("with no_grad(\n):\n    x = y\n")

    assert mutation.kind == "leave with"
    assert mutation.text == f"{HEAD}if True:\n\n    x = y\n"


def test_a_function_returns_none_and_loses_its_decorator():
    code = "@no_grad()\ndef f(x):\n    return x\n"

    assert [each.kind for each in made(code)] == [
        "drop decorator",
        "return None",
    ]
    dropped = code.replace("@no_grad()", "@(lambda it: it)")
    assert made(code)[0].text == HEAD + dropped


@pytest.mark.parametrize(
    "code",
    [
        "print(x.item(), x > 1, sep=1)\n",
        "for each in x.values():\n    print(each)\n",
        "y = f'{x + 1}'\n",
        "x = torch.randn(64, 3)\n",
        "x = torch.tensor([1.0, -2.0, [True]])\n",
        "torch.manual_seed(0)\n",
        "steps = tqdm(options, desc='steps', leave=False, disable=None)\n",
        "for one, other in zip(a, b, strict=True):\n    x = one\n",
        "class A:\n    def __init__(self):\n        self.x = 1\n",
        "import pandas\n\nx.f()\n",
        "if torch.cuda.is_available():\n    x.f()\n",
    ],
)
def test_what_means_nothing_to_a_test_stays(code):
    first = HEAD.replace("start", "first") + "import torch\n\n# %% start\n"
    assert made(code, first) == []


def test_all_other_lines_stay_where_they_are():
    code = (
        "über = f(  # why\n    'ü', a.detach(\n    ),\n    k=1,\n)\n\n"
        "# %% second-step\nwith no_grad(\n    1\n):\n    ü += g(\n        b\n"
        "    ).sum(\n    )\n\n# %% third-step\nx = h(y)[0]\n"
    )
    program = (HEAD + code).split("\n")
    ends = {7: 11, 14: 16, 17: 20, 23: 23}
    found = made(code)

    assert {each.line for each in found} == ends.keys()
    for mutation in found:
        lines = mutation.text.split("\n")
        before, after = mutation.line - 1, ends[mutation.line]
        assert lines[:before] == program[:before]
        assert lines[after:] == program[after:]
        assert len(lines) == len(program)


def test_what_is_within_a_survivor_says_no_more():
    found = made("f(x.abs(), k=1)\ny.abs()\n")

    assert [each.kind for each in found] == [
        "delete statement",
        "drop keyword k",
        "drop abs()",
        "delete statement",
    ]
    assert outermost(found) == [found[0], found[3]]
    assert outermost(found[1:]) == found[1:]
