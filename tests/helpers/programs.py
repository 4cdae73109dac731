"""A program that prints errors, and how tests run parts of a program."""

PROGRAM = """
# %% ask
def ask(call):
    try:
        call()
    except ValueError as error:
        print("said:", error)


# %% fails
print("first")
ask(lambda: int("x"))

# %% works
print("no error")

# %% handles
try:
    [][1]
except IndexError as error:
    print(type(error).__name__, error)
"""


def after(snippet, *cells):
    """Run these cells alone, and return the variables after the last."""
    return snippet.only(*cells).after(cells[-1])
