"""A problem in a handler of the house."""

import pytest

HANDLER = """
from extensions.core.files import Problem

def handler(*args):
    raise Problem("some/file", 7, "cannot be written")
    {more}

handler.__module__ = "extensions.site.other"

def setup(app):
    app.connect("{event}", handler)
"""


@pytest.mark.parametrize(
    ("event", "more"),
    [
        ("builder-inited", ""),
        ("doctree-resolved", ""),
        ("html-collect-pages", "yield"),
        ("build-finished", ""),
    ],
)
def test_a_problem_in_a_handler_ends_the_build_in_one_line(
    house, stopped, event, more
):
    (house / "other.py").write_text(HANDLER.format(event=event, more=more))
    with (house / "docs/conf.py").open("a") as file:
        file.write("extensions += ['other']\n")

    assert stopped() == ["some/file:7: ERROR: cannot be written [proven]"]
