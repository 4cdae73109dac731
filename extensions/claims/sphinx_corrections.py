"""``{corrected}``: some corrections, chosen by the claims that show them.

They are named as ``training/zero_grad#between-nothing-is-learned``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import depend_on, root_of
from extensions.claims.corrections import read_corrections
from extensions.claims.sphinx_summaries import Summary

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx


class _CorrectedDirective(SphinxDirective):
    """Show the corrections that rest on the named claims, in their order."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return a placeholder, which is filled in when all pages are read."""
        depend_on(self.env, "corrections")
        rows = read_corrections(root_of(self.env))
        known = {row.name for row in rows}
        only = self.arguments[0].split()
        for name in only:
            if name not in known:
                raise self.error(f"no correction rests on {name}")
            depend_on(self.env, "claims", name)
            depend_on(self.env, "titles", name.partition("#")[0])
        return [Summary(template="corrected.html", only=only)]


def setup_corrections(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("corrected", _CorrectedDirective)
