"""What a build of the house in miniature said."""

import re


def written(app):
    """Return which pages a build wrote."""
    plain = re.sub(r"\x1b\[\d+(;\d+)*m", "", app.status.getvalue())
    return set(re.findall(r"writing output\.\.\. \[ *\d+%\] (\S+)", plain))
