"""Errors that people paste: their texts, and why they come.

A section with an ``{error-text}`` is an entry. Its heading and its texts are
what the search compares with what somebody pastes.
"""

from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.typing import OptionSpec

from extensions.claims.sphinx_panels import claim_link
from extensions.core.files import Problem
from extensions.core.topics import Topic, sha256, topics
from extensions.programs.outputs import lines_that_say
from extensions.programs.snippet import Snippet
from extensions.site.dependencies import depend_on, root_of
from extensions.site.nodes import html_element


def outputs_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of the output of each program."""
    return {
        topic.name: sha256(topic.output) for topic in topics(root_of(app.env))
    }


class ErrorTextDirective(SphinxDirective):
    """Show an error text; below it, in the body, its causes and what to do.

    With a topic and a cell, the text is what that cell printed, from the line
    with some words on, and a link leads to the claim that shows the cause.
    Other texts of the same error stand behind ``also``, between bars.
    """

    optional_arguments = 2
    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "says": directives.unchanged_required,
        "because": directives.unchanged_required,
        "also": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the text, and below it why it comes, and what to do."""
        also = [e.strip() for e in self.options.get("also", "").split(" | ")]
        also = [*filter(None, also)]
        printed, proof = [], []
        if self.arguments:
            text, shown = self._printed()
            printed, proof = [text], [html_element("p", shown)]
        elif not also:
            raise self.error("name a topic and a cell, or say :also:")
        block = nodes.container(classes=["raised"], texts=printed + also)
        for text in filter(None, (*printed, "\n".join(also))):
            block += nodes.literal_block(text, text, language="none")
        self.state.nested_parse(self.content, self.content_offset, block)
        block += proof
        return [block]

    def _printed(self) -> tuple[str, nodes.reference]:
        """Return what a cell printed, and a link to the test that shows it."""
        name, cell_name = self.arguments
        topic = Topic(root_of(self.env), name)
        depend_on(self.env, "programs", name)
        if missing := {"says", "because"} - {*self.options}:
            raise self.error(f"say :{max(missing)}:")
        claim = self.options["because"]
        try:
            cell = Snippet.read(topic.snippet).cell(cell_name)
            text = lines_that_say(topic, cell, self.options["says"])
        except Problem as error:
            raise self.error(str(error)) from error
        shown = claim_link(self, topic, claim)
        if shown is None:
            raise self.error(f"{name} has no claim {claim!r}")
        # Its words stand on its own page: a page of entries has to be light.
        shown.clear()
        shown += nodes.Text("The test that shows it")
        return text, shown
