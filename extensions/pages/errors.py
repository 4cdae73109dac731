"""Pages that people come to with an error: their entries, and error texts.

``{entries}`` lists the entries of a page, at its head, with a filter: whoever
pastes an error keeps those whose text holds most of it. An entry is a section
within a section. ``{error-text}`` shows an error that a program of the guide
ran into, and why.
"""

from collections.abc import Iterator
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
from extensions.site.nodes import HtmlElement, html_element

ENTRIES = "entries"  # whether a page lists its own: kept in its metadata


class Entries(nodes.General, nodes.Element):
    """A placeholder for the list, until the whole page is read."""


class EntriesDirective(SphinxDirective):
    """List the entries of the page, below a filter with the given label."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        self.env.metadata[self.env.docname][ENTRIES] = True
        return [Entries(label=self.arguments[0])]


def list_entries(app: Sphinx, doctree: nodes.document) -> None:
    """Put the list of all entries into its place, below the filter."""
    for place in list(doctree.findall(Entries)):
        groups = list(_groups(doctree))
        count = sum(len(list(e.findall(nodes.reference))) for e in groups)
        box = html_element(
            "input", type="search", name="words", autocomplete="off"
        )
        form = html_element(
            "form",
            html_element("label", nodes.Text(place["label"]), box),
            html_element("output", nodes.Text(f"{count} of {count} entries")),
            class_="row-filter entry-filter",
            role="search",
            **{"data-rows": ".entry-group li", "data-noun": "entries"},
        )
        place.replace_self([form, *groups])


def _groups(doctree: nodes.document) -> Iterator[HtmlElement]:
    # For each section with entries, its title above a list of them.
    for section in doctree.findall(nodes.section):
        entries = [each for each in section if isinstance(each, nodes.section)]
        if not entries or isinstance(section.parent, nodes.document):
            continue
        listed = html_element("ul")
        for entry in entries:
            words = [each.deepcopy() for each in entry[0].children]
            link = nodes.reference("", "", *words, refid=entry["ids"][0])
            link["internal"] = True
            listed += html_element("li", link)
        name = nodes.paragraph("", section[0].astext())
        yield html_element("div", name, listed, class_="entry-group")


def outputs_now(app: Sphinx) -> dict[str, str]:
    """Return a fingerprint of the output of each program."""
    return {
        topic.name: sha256(topic.output) for topic in topics(root_of(app.env))
    }


class ErrorTextDirective(SphinxDirective):
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
        block = nodes.container(classes=["raised"])
        block += nodes.literal_block(text, text, language="none")
        self.state.nested_parse(self.content, self.content_offset, block)
        block += nodes.paragraph("", "", shown)
        return [block]
