"""Rules of the project, held by the tests and at every build.

Each rule is a function that yields a :class:`Problem` for each place where it
is broken. The packages bring their rules; here they are put in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.lint.rules import RULES

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["RULES"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.lint import sphinx_rules
    from extensions.site.metadata import METADATA

    app.connect("config-inited", sphinx_rules.hold_first_rules)
    app.connect("builder-inited", sphinx_rules.hold_later_rules)
    return METADATA
