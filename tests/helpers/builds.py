"""Builds of the house in miniature, and what they said."""

import re

from sphinx.testing.util import SphinxTestApp


def built(house, **options):
    """Build a house once, for all the tests that only read its site."""
    app = SphinxTestApp(
        srcdir=house / "docs", builddir=house / "out", **options
    )
    app.build()
    app.cleanup()
    return app


def written(app):
    """Return which pages a build wrote."""
    plain = re.sub(r"\x1b\[\d+(;\d+)*m", "", app.status.getvalue())
    return set(re.findall(r"writing output\.\.\. \[ *\d+%\] (\S+)", plain))
