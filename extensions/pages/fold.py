"""``{fold}``: what only some readers need, behind its title."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

from extensions.site.nodes import Details

if TYPE_CHECKING:
    from sphinx.application import Sphinx


class _FoldDirective(SphinxDirective):
    """Show a title, Markdown of words and code, which opens the rest."""

    required_arguments = 1
    final_argument_whitespace = True
    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the details."""
        self.assert_has_content()
        fold = Details("", summary=self.arguments[0], classes=["fold"])
        self.state.nested_parse(self.content, self.content_offset, fold)
        return [fold]


def setup_fold(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("fold", _FoldDirective)
