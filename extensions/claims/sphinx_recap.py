"""``{recap}``: claims once more, to remember.

Those of the page by their names, and those of others behind the name of their
page: ``autograd/detach#a-cut-does-not-stop-the-optimizer``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

from extensions.build.addresses import address
from extensions.build.dependencies import depend_on, root_of
from extensions.claims.page import read_page
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def recalled(
    directive: SphinxDirective, topic: Topic, name: str
) -> nodes.reference | None:
    """Return the words of a claim once more, as a link to their place.

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
    link["recalls"] = topic.name, name
    link["classes"].append("recalled")
    return link


class RecapDirective(SphinxDirective):
    """Repeat the named claims as a list; each leads to its place."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return the list."""
        items = nodes.bullet_list(classes=["recap"])
        for each in self.arguments[0].split():
            page, _, name = each.rpartition("#")
            topic = Topic(root_of(self.env), page or self.env.docname)
            link = recalled(self, topic, name)
            if link is None:
                continue  # a rule reports it
            said = nodes.paragraph("", "", link)
            if page:
                said += self.title(page)
            items += nodes.list_item("", said)
        return [items] if items.children else []

    def title(self, page: str) -> list[nodes.Node]:
        """Return the title of another page, as a link."""
        link = nodes.paragraph()
        lines = StringList([f"{{doc}}`/{page}`"], self.env.docname)
        self.state.nested_parse(lines, 0, link)
        return [nodes.Text(" "), *link[0].children]


def setup_recap(app: Sphinx) -> None:
    """Add the directive."""
    app.add_directive("recap", RecapDirective)
