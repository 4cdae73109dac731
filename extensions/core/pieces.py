"""The pieces to play with, and what each says where no script runs.

Downloads show these words in its place: Markdown, with the example that the
piece itself begins with.
"""

_MINUS = "\N{MINUS SIGN}"
EXAMPLES = {
    "broadcasting": (
        "For example, `(8, 8)` and `(1797, 1, 8)` give `(1797, 8, 8)`: the"
        " first is stretched along a new dimension of 1797, and the second"
        " along its dimension of 1."
    ),
    "gradient": (
        "For example, w = 3, x = 2, b = 1 and y = 10 give a loss of 9, and"
        f" the gradients {_MINUS}12 for w, {_MINUS}18 for x, {_MINUS}6 for b"
        " and 6 for y."
    ),
    "reshape": (
        "For example, `permute(2, 0, 1)` of a contiguous tensor of shape"
        " `(2, 3, 4)` gives the shape `(4, 2, 3)` and the strides"
        " `(1, 12, 4)`, and moves no number in memory."
    ),
}
