"""``{error-text}``: an error that a program of the guide ran into, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.build.dependencies import KINDS, depend_on, root_of
from extensions.claims.sphinx_claim_links import claim_link
from extensions.core.problem import Problem
from extensions.core.topics import Topic, sha256, topics
from extensions.programs.error_texts import lines_that_say
from extensions.programs.snippet import Snippet

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec


_TEST_TITLE = "The test that shows it"


def _outputs_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of the output of each program."""
    return {
        topic.name: sha256(topic.output) for topic in topics(root_of(app.env))
    }


class _ErrorTextDirective(SphinxDirective):
    """Show what a cell of a topic printed, from the line with some words.

    Below it stand the cause in plain words and what to do, then a link to the
    claim of that topic that shows the cause, with its result.
    """

    required_arguments = 2
    has_content = True
    option_spec: ClassVar[OptionSpec] = {
        "says": directives.unchanged_required,
        "because": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Return the text, and below it why it comes, and what to do."""
        name, cell_name = self.arguments
        topic = Topic(root_of(self.env), name)
        depend_on(self.env, "programs", name)
        if f"({name}.md" not in "\n".join(self.content):
            raise self.error(f"the text has no link to {name}.md")
        if "says" not in self.options:
            raise self.error("write with :says: what people see")
        if "because" not in self.options:
            raise self.error(f"name with :because: a claim of {name}")
        try:
            cell = Snippet.read(topic.snippet).cell(cell_name)
            text = lines_that_say(topic, cell, self.options["says"])
        except Problem as error:
            raise self.error(str(error)) from error
        shown = claim_link(self, topic, self.options["because"])
        if shown is None:
            claim = self.options["because"]
            raise self.error(f"{name} has no claim {claim!r}")
        # Its words stand on its own page: a page of entries has to be light.
        shown.clear()
        shown += nodes.Text(_TEST_TITLE)
        block = nodes.container(classes=["raised"])
        block += nodes.literal_block(text, text, language="none")
        self.state.nested_parse(self.content, self.content_offset, block)
        block += nodes.paragraph("", "", shown)
        return [block]


def setup_error_text(app: Sphinx) -> None:
    """Add the directive, and let pages depend on the output of programs."""
    KINDS["programs"] = _outputs_now
    app.add_directive("error-text", _ErrorTextDirective)
