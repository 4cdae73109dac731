"""Pages that people come to with an error: their entries, and error texts.

``{entries}`` lists the entries of a page, at its head, with a filter: whoever
pastes an error keeps those whose text holds most of it. An entry is a section
within a section. ``{error-text}`` shows an error that a program of the guide
ran into, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

from extensions.claims.sphinx_panels import claim_link
from extensions.core.files import Problem
from extensions.core.topics import Topic, sha256, topics
from extensions.programs.outputs import lines_that_say
from extensions.programs.snippet import Snippet
from extensions.site.dependencies import KINDS, depend_on, root_of
from extensions.site.layout import address, title_shown
from extensions.site.nodes import HtmlElement, html_element

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from sphinx.application import Sphinx
    from sphinx.util.typing import OptionSpec


class _Entries(nodes.General, nodes.Element):
    """A placeholder for the list, until the whole page is read."""


def _entry_filter(
    label: str, noun: str, count: int, more: Mapping[str, str]
) -> HtmlElement:
    """Return a box that leaves the items of all lists of entries it fits.

    A page on which there are more is offered where no item fits well.
    """
    box = html_element(
        "input", type="search", name="words", autocomplete="off"
    )
    return html_element(
        "form",
        html_element("label", nodes.Text(label), box),
        html_element("output", nodes.Text(f"{count} of {count} {noun}")),
        class_="row-filter entry-filter",
        role="search",
        **{"data-rows": ".entry-group li", "data-noun": noun, **more},
    )


class _EntriesDirective(SphinxDirective):
    """List the entries of the page, below a filter with the given label.

    Another page, on which there are more, has a filter as well.
    """

    required_arguments = 1
    final_argument_whitespace = True
    option_spec: ClassVar[OptionSpec] = {
        "noun": directives.unchanged_required,
        "more": directives.unchanged_required,
    }

    def run(self) -> list[nodes.Node]:
        """Leave a place for the list."""
        noun = self.options.get("noun", "entries")
        more = (
            self.more(self.options["more"]) if "more" in self.options else {}
        )
        return [_Entries(label=self.arguments[0], noun=noun, more=more)]

    def more(self, name: str) -> dict[str, str]:
        """Return the address and the title of a page with more of them."""
        if name not in self.env.found_docs:
            raise self.error(f"more entries on a page that is not: {name!r}")
        topic = Topic(root_of(self.env), name)
        return {
            "data-more": address(self.env, topic, "").rstrip("#"),
            "data-title": title_shown(self.env, name),
        }


def _list_entries(app: Sphinx, doctree: nodes.document) -> None:
    """Put the list of all entries into its place."""
    for place in list(doctree.findall(_Entries)):
        groups = list(_groups(doctree))
        count = sum(
            len(list(each.findall(nodes.reference))) for each in groups
        )
        found = _entry_filter(
            place["label"], place["noun"], count, place["more"]
        )
        place.replace_self([found, *groups])


def _groups(doctree: nodes.document) -> Iterator[HtmlElement]:
    """Yield, for each section with entries, its title above a list of them."""
    for section in doctree.findall(nodes.section):
        entries = [each for each in section if isinstance(each, nodes.section)]
        if not entries or isinstance(section.parent, nodes.document):
            continue
        listed = html_element("ul")
        for entry in entries:
            [name, *_] = entry["ids"]
            words = [each.deepcopy() for each in _title(entry)]
            link = nodes.reference("", "", *words, internal=True, refid=name)
            listed += html_element("li", link)
        title = nodes.paragraph("", _title(section).astext())
        yield html_element("div", title, listed, class_="entry-group")


def _title(section: nodes.section) -> nodes.title:
    """Return the title of a section, which is the first thing in it."""
    return next(section.findall(nodes.title))


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
        shown += nodes.Text("The test that shows it")
        block = nodes.container(classes=["raised"])
        block += nodes.literal_block(text, text, language="none")
        self.state.nested_parse(self.content, self.content_offset, block)
        block += nodes.paragraph("", "", shown)
        return [block]


def setup_errors(app: Sphinx) -> None:
    """Add the directives, and let pages depend on the output of programs."""
    KINDS["programs"] = _outputs_now
    app.add_directive("error-text", _ErrorTextDirective)
    app.add_node(_Entries)
    app.add_directive("entries", _EntriesDirective)
    app.connect("doctree-read", _list_entries)
