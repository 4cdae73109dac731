"""Long lists of values in few words: how many there are of what, and some.

A panel shows "nine layers, among them Linear and LSTM", and folds the list.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from extensions.claims.values import TYPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from extensions.claims.cases import Column

_FEWEST = 4  # values that are counted, and not all told
_EXAMPLES = 2
_LONGEST_EXAMPLES = 44  # letters of those that are told
_NUMBERS = "zero one two three four five six seven eight nine ten eleven"
_WORDS = [*_NUMBERS.split(), "twelve"]
_DTYPES = rf"({TYPES})(_e\dm\d\w*)?"
_OPTIMIZERS = "Adadelta Adagrad Adam AdamW Adamax ASGD LBFGS NAdam RAdam"
_LAYERS = """
    Alpha Attention Batch Bilinear Conv Dropout Embedding Feature GELU GRU
    Group Instance LSTM Layer Linear PReLU RMSNorm RNN RReLU ReLU Sequential
    Transformer bidirectional
"""
# What the values are if each of them begins like one of these.
_BY_VALUE = {
    "optimizers": (*_OPTIMIZERS.split(), "RMSprop", "Rprop", "SGD", "fused"),
    "layers": tuple(_LAYERS.split()),
}
# What they are by the name of their argument.
_BY_ARGUMENT = {
    "array": "arrays",
    "batch": "batches",
    "batches,parts_per_step,loader,kind": "loops",
    "call": "calls",
    "change": "changes",
    "content": "objects",
    "dtype,shape": "kinds of tensor",
    "function": "functions",
    "head": "heads",
    "hold,held": "containers",
    "index": "indices",
    "layer": "layers",
    "layout": "kinds of tensor",
    "kernel": "kernels",
    "length": "lengths",
    "letters,multiple": "lengths",
    "loss": "losses",
    "losses": "courses of the loss",
    "mode,size": "kinds of picture",
    "model": "kinds of model",
    "number,dimensions": "sets of points",
    "operation": "operations",
    "optimizer": "optimizers",
    "picture": "pictures",
    "prepare": "kinds of model",
    "reduction": "reductions",
    "said": "error texts",
    "scripted": "courses of the loss",
    "shape": "shapes",
    "sizes,start": "ways to split the batch",
    "table": "kinds of table",
    "tensor": "kinds of tensor",
    "view": "views",
    "way": "changes",
    "wrapped": "ways to wrap it",
    "yours": "kinds of model",
}
# What no example holds: two things in one, and what needs the words before it.
_UNCLEAR = re.compile(r" and |, [a-z]|^(at|none|of|with) |^none$")
# How words go on that name what the values are.
_NAMES_IT = re.compile(
    r"(?P<before>.*?)(?: (?:if|of|for|in|with))?"
    r" (?:(?:a|the) )?(?:file|model|tables?|tensor)(?: is| with)?"
)


def in_few_words(
    words: str, column: Column, said: Sequence[str], has_examples: bool = True
) -> tuple[str, str]:
    """Return what stands before a long list, and the list in few words.

    Empty if nobody knows what its values are, or if it is not long.
    """
    noun = _noun(words, column.arguments, column.values)
    number = len(column.values)
    if number < _FEWEST or not noun:
        return words, ""
    count = _WORDS[number] if number < len(_WORDS) else str(number)
    if matched := _NAMES_IT.fullmatch(words):
        words = f"{matched['before']} for"
    # The names of some dtypes are no shorter than those of all.
    is_named = has_examples and noun != "dtypes"
    examples = " and ".join(_examples(noun, said)) if is_named else ""
    more = f", among them {examples}" if examples else ""
    return words, f"{count} {noun}{more}"


def _noun(words: str, arguments: Sequence[str], values: Sequence[str]) -> str:
    """Return what some values are, in the plural; empty if nobody knows."""
    if matched := _NAMES_IT.fullmatch(words):
        about = re.search(
            "file|model|table|tensor", words[matched.end("before") :]
        )
        return f"kinds of {about[0]}" if about else ""
    if all(re.fullmatch(_DTYPES, each) for each in values):
        return "dtypes"
    for noun, starts in _BY_VALUE.items():
        if all(each.startswith(starts) for each in values):
            return noun
    if all(re.fullmatch(r"\w+(Error|Interrupt)", each) for each in values):
        return "exceptions"
    argument = arguments[0].removeprefix("make_")
    names = (",".join(arguments), argument, argument.removesuffix("s"))
    return next(
        (_BY_ARGUMENT[each] for each in names if each in _BY_ARGUMENT), ""
    )


def _examples(noun: str, said: Sequence[str]) -> list[str]:
    """Return some values to name: the first that are short and clear.

    Adjectives and nouns say it by themselves: "transposed", not "with gaps".
    """
    told = [each.removeprefix(f"{noun} ") for each in said]
    clear = [each for each in told if not _UNCLEAR.search(each)]
    adjectives = [each for each in clear if each.isalpha() and each.islower()]
    pairs = [adjectives[:_EXAMPLES], clear[:_EXAMPLES]]
    for chosen in (*(each for each in pairs if len(each) > 1), clear[:1]):
        if chosen and len("".join(chosen)) <= _LONGEST_EXAMPLES:
            return chosen
    return []
