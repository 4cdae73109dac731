"""A label of two pages leads to the first of them, whichever was read last.

Claims of two pages may have one name; the inventory for other projects has
room for one of them. A link to ``page.md#name`` has to find either, so each
page keeps the names of its own claims.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.claims.page import read_page
from extensions.core.topics import topics
from extensions.site.dependencies import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def _first_page(app: Sphinx, env: BuildEnvironment) -> None:
    labels = env.domains.standard_domain.anonlabels
    for topic in reversed(topics(root_of(env))):
        for claim in read_page(topic.page).claims:
            if claim.name in labels and topic.name in env.found_docs:
                labels[claim.name] = topic.name, claim.name
                ids = env.metadata[topic.name].setdefault("myst_slugs", {})
                # A line, the id, and words for a link that has none.
                ids.setdefault(claim.name, (claim.line, claim.name, ""))


def setup_labels(app: Sphinx) -> None:
    """Look at the labels once all pages are read."""
    app.connect("env-updated", _first_page)
