"""What PyTorch answers to hundreds of inputs of the pieces to play with.

The tests in ``browser/`` compare the pieces with it, where no torch is
installed. ``python -m tests.helpers.pieces`` writes it again.
"""

import json
import random

import torch

from extensions.core.topics import ROOT
from extensions.core.writing import write

ANSWERS = ROOT / "browser/pieces.json"
SIZES = [0, 1, 1, 1, 2, 2, 3, 3, 4, 5, 7]
VALUES = [0.0, 1.0, -1.0, 0.1, -0.3, 2.5, 10.0, -10.0, 1000.0, 3e-05]


def answer(call):
    """Return what a call gives, or its error as Python shows it."""
    try:
        return call()
    except (IndexError, RuntimeError, TypeError) as error:
        return {"error": f"{type(error).__name__}: {error}"}


# -- Shapes that broadcast ----------------------------------------------------


def shapes(draw):
    """Return two shapes, which fit more often than not."""
    whole = draw.choices(SIZES, k=draw.randint(0, 5))
    pair = []
    for _ in range(2):
        shape = [size if draw.random() < 0.7 else 1 for size in whole]
        for _ in range(draw.choice([0, 1, 2])):
            if shape:
                shape[draw.randrange(len(shape))] = draw.choice(SIZES)
        pair.append(shape[draw.randint(0, len(shape)) :])
        if draw.random() < 0.5:
            pair[-1] = shape
    draw.shuffle(pair)
    return pair


def added(a, b):
    """Return the shape of a sum."""
    return answer(
        lambda: {"shape": list((torch.ones(a) + torch.ones(b)).shape)}
    )


# -- Reshape and permute ------------------------------------------------------


def rearranged(sizes, call):
    """Return all that is shown of what some calls make of a tensor."""
    numbers = torch.arange(torch.Size(sizes).numel())
    x = numbers.reshape(sizes)
    return answer(lambda: facts(eval(f"x.{call}", {"x": x}), numbers))


def facts(y, numbers):
    """Return what is shown of a tensor that was made of some numbers."""
    return {
        "shape": list(y.shape),
        "strides": list(y.stride()),
        "isContiguous": y.is_contiguous(),
        "isView": y._base is numbers,
        "values": y.flatten().tolist(),
    }


def split(draw, count):
    """Return sizes with a product, or with nearly one."""
    sizes = []
    while count > 1 and draw.random() < 0.8:
        divisors = [each for each in range(2, count + 1) if count % each == 0]
        sizes.append(draw.choice(divisors))
        count //= sizes[-1]
    sizes += [count] if count != 1 or draw.random() < 0.2 else []
    for _ in range(draw.choice([0, 0, 0, 1, 2])):
        sizes.insert(draw.randint(0, len(sizes)), 1)
    draw.shuffle(sizes)
    return sizes


def merged(draw, sizes):
    """Return sizes of which some neighbors are one."""
    found = []
    for size in sizes:
        if found and draw.random() < 0.5:
            found[-1] *= size
        else:
            found.append(size)
    return found


def arguments(draw, name, sizes, is_right):
    """Return what to give to a call, which may be right, or is."""
    if name == "permute":
        given = list(range(len(sizes)))
        draw.shuffle(given)
        given = [
            each - len(sizes) if draw.random() < 0.3 else each
            for each in given
        ]
        wrong = range(-len(sizes) - 1, len(sizes) + 1)
    else:
        count = torch.Size(sizes).numel()
        given = draw.choice(
            [merged(draw, sizes), merged(draw, sizes), split(draw, count)]
            + [list(sizes)] * (not count)
        )
        if given and draw.random() < 0.3:
            given[draw.randrange(len(given))] = -1
        wrong = [-2, -1, -1, 0, 1, 2, 3, 5, 48]
    if not is_right and draw.random() < 0.5:
        at = draw.randint(0, len(given))
        replaced = draw.choice([0, 1, 1, 1])
        given[at : at + replaced] = [draw.choice(wrong)]
    return given


def written(draw, given):
    """Return arguments as somebody would write them."""
    inner = ", ".join(map(str, given))
    if not given:
        return draw.choice(["()", "(())", "([])"])
    tuple_ = f"({inner},)" if len(given) == 1 else f"({inner})"
    return draw.choice([f"({inner})"] * 3 + [f"({tuple_})", f"([{inner}])"])


def calls(draw):
    """Return sizes, and one to three calls."""
    sizes = split(draw, draw.choice([1, 4, 6, 6, 8, 8, 12, 12, 12, 18, 24]))
    if draw.random() < 0.15:
        sizes.insert(draw.randint(0, len(sizes)), 0)
    is_right = draw.random() < 0.6
    now, text = sizes, []
    for at in range(draw.choice([1, 2, 2, 2, 3])):
        more = ["reshape", "view"] if at else ["permute", "permute"]
        name = draw.choice(["permute", "reshape", "view", *more])
        given = arguments(draw, name, now, is_right)
        text.append(f"{name}{written(draw, given)}")
        after = rearranged(sizes, ".".join(text))
        if "error" in after:
            break
        now = after["shape"]
    return sizes, ".".join(text)


# -- A gradient by hand -------------------------------------------------------


def numbers(draw):
    """Return a number for each of w, x, b and y."""
    return {
        name: draw.choice(VALUES)
        if draw.random() < 0.3
        else round(draw.uniform(-10, 10), draw.randint(0, 4))
        for name in "wxby"
    }


def flowed(given):
    """Return the values, their gradients, and w and b after a step."""
    leaves = {
        name: torch.tensor(value, requires_grad=True)
        for name, value in given.items()
    }
    w, x, b, y = (leaves[name] for name in "wxby")
    product = w * x
    total = product + b
    difference = total - y
    loss = difference**2
    named = {
        **leaves,
        "product": product,
        "sum": total,
        "difference": difference,
        "loss": loss,
    }
    for each in named.values():
        each.retain_grad()
    loss.backward()
    with torch.no_grad():
        step = {"w": w - 0.01 * w.grad, "b": b - 0.01 * b.grad}
    return {
        "values": {name: each.item() for name, each in named.items()},
        "gradients": {name: each.grad.item() for name, each in named.items()},
        "step": {name: each.item() for name, each in step.items()},
    }


def distinct(draw, make, count):
    """Return some inputs, of which no two are the same."""
    found = {}
    while len(found) < count:
        made = make(draw)
        found[json.dumps(made)] = made
    return list(found.values())


def all_answers():
    """Return the inputs of each piece, each with what PyTorch answers."""
    draw = random.Random(0)
    pairs = distinct(draw, shapes, 400)
    chains = distinct(draw, calls, 800)
    settings = distinct(draw, numbers, 300)
    return {
        "broadcasting": [[a, b, added(a, b)] for a, b in pairs],
        "reshape": [[a, text, rearranged(a, text)] for a, text in chains],
        "gradient": [[given, flowed(given)] for given in settings],
    }


def as_text(answers):
    """Return answers as JSON, one in each line."""
    parts = []
    for name, rows in answers.items():
        lines = ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows)
        parts.append(f"{json.dumps(name)}: [\n{lines}\n]")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    write(ANSWERS, as_text(all_answers()))
