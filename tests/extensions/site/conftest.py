"""What the tests of the build share."""

import os

import pytest

ENDING = """
import os
def setup(app):
    seen = []
    def end(*args):
        seen.append(1)
        if len(seen) > {after}:
            os._exit(9)
    app.connect("{event}", end)
"""


@pytest.fixture
def kill(house, build):
    """Return a build, in a process that ends itself at an event of Sphinx."""

    def kill(event, after=0):
        conf = house / "docs/conf.py"
        text = conf.read_text()
        conf.write_text(text + ENDING.format(event=event, after=after))
        if (child := os.fork()) == 0:
            try:
                build()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        conf.write_text(text)
        return os.waitstatus_to_exitcode(status)

    return kill
