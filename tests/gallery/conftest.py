"""What the tests of recipes share that have settings and take arguments."""

from unittest.mock import patch

from extensions.files.failures import no_error

OPTIONS = "import argparse\n"


def given(snippet, **constants):
    """Return a program with other constants."""
    lines = "".join(f"{key} = {value!r}\n" for key, value in constants.items())
    return snippet.edit(OPTIONS, f"{OPTIONS}{lines}")


def as_script(snippet):
    """Return a program as started as a script, and not in a notebook."""
    return snippet.edit(OPTIONS, f"{OPTIONS}__file__ = 1\n")


def constants(snippet, names):
    """Return constants as a program sets them before it looks at arguments."""
    found = vars(snippet.after("settings"))
    return {name: found[name] for name in names}


def told(program, words, names):
    """Return constants of a program that is started with some arguments."""
    with patch("sys.argv", ["recipe.py", *words]), no_error():
        found = vars(program.after("options"))
    return {name: found[name] for name in names}
