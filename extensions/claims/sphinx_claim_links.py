"""The words of a claim on another page, as a link to where they are proven."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList

from extensions.claims.page import read_page
from extensions.site.dependencies import depend_on
from extensions.site.layout import address

if TYPE_CHECKING:
    from sphinx.util.docutils import SphinxDirective

    from extensions.core.topics import Topic


def claim_link(
    directive: SphinxDirective, topic: Topic, name: str
) -> nodes.reference | None:
    """Return the sentence of a claim as a link to where it is proven.

    None if the page of the topic has no such claim.
    """
    depend_on(directive.env, "claims", f"{topic.name}#{name}")
    page = read_page(topic.page)
    claims = {claim.name: claim.sentence for claim in page.claims}
    if name not in claims:
        return None
    words = nodes.paragraph()
    lines = StringList([claims[name]], page.path.as_posix())
    directive.state.nested_parse(lines, 0, words)
    uri = address(directive.env, topic, name)
    link = nodes.reference(
        "", "", *words[0].children, internal=True, refuri=uri
    )
    link["names_claim"] = topic.name, name
    link["classes"].append("recapped")
    return link
