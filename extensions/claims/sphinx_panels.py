"""A small sign after each claim, and the panel that it opens.

The sign is a link to the panel, which stands below the paragraph of the claim
or below its row of a table: so it never covers the sentence, is as wide as the
page, and opens without a script as well.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from docutils import nodes

from extensions.claims.ledger import in_a_row, ledger_page
from extensions.claims.sphinx_ledger import ledger_of
from extensions.claims.sphinx_test_pages import link_to_test
from extensions.claims.words import (
    case_in_words,
    change_in_words,
    folded,
    sign_of,
)
from extensions.core.files import Problem
from extensions.site.dependencies import builder_of
from extensions.site.errors import report
from extensions.site.layout import PageContext, on_page_context
from extensions.site.nodes import (
    HtmlNode,
    add_html_node,
    html_element,
    paragraph_of,
)
from extensions.site.nodes import words as words_as_html

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders.html import StandaloneHTMLBuilder

    from extensions.claims.ledger import Entry


def _add_panels(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add a sign after each claim of a page, and its panel below."""
    builder, ledger = builder_of(app), ledger_of(app)
    entries = {each.claim.name: each for each in ledger.of(docname)}
    unseen, panels = set(entries), []
    for node in [
        *doctree.findall(nodes.inline),
        *doctree.findall(nodes.paragraph),
    ]:
        names = unseen & set(node["ids"])
        if not names:
            continue
        unseen -= names
        entry = entries[names.pop()]
        node["classes"].append("claim")
        _put_behind(node, _sign_of(builder, entry, is_link=True))
        panel = render_for_claim(
            builder,
            "panel",
            entry=entry,
            runs=list(zip(ledger.runs, entry.outcomes, strict=True)),
            row=builder.get_relative_uri(docname, ledger_page(entry)),
            link=partial(link_to_test, builder, docname, entry),
            change_in_words=change_in_words,
            case_in_words=case_in_words,
            folded=folded,
            words=words_as_html,
        )
        panels.append((node, panel))
    for words in doctree.findall(nodes.reference):
        topic_name, name = words.get("names_claim", ("", ""))
        for entry in ledger.of(topic_name):
            if entry.claim.name == name:
                _put_behind(words, _sign_of(builder, entry, is_link=False))
                in_recap = isinstance(words.parent.parent, nodes.list_item)
                if entry.ends and in_recap:
                    words.parent.append(_where_it_ends(entry))
    for name in sorted(unseen):
        claim = entries[name].claim
        message = f"claim {name!r} has the address of a heading: rename one"
        report(Problem(entries[name].topic.page, claim.line, message))
    for node, panel in reversed(panels):  # so that they keep their order
        _put_below(node, panel)


def _where_it_ends(entry: Entry) -> HtmlNode:
    """Return a line that says where a claim ends."""
    said = words_as_html(in_a_row(entry.ends))
    html = f' <small class="claim-ends">Where it ends: {said}.</small>'
    return HtmlNode(html=html)


def _put_below(words: nodes.Element, panel: nodes.Element) -> None:
    """Add a panel below the paragraph of some words, or below their row."""
    block = row = paragraph_of(words)
    while row.parent is not None and not isinstance(row, nodes.row):
        row = row.parent
    if isinstance(row, nodes.row):
        entries = row.findall(nodes.entry)
        width = sum(1 + each.get("morecols", 0) for each in entries)
        cell = html_element("td", panel, colspan=f"{width}")
        block, panel = row, html_element("tr", cell, class_="claim-row")
    block.parent.insert(block.parent.index(block) + 1, panel)


def render_for_claim(
    builder: StandaloneHTMLBuilder, name: str, **values: object
) -> HtmlNode:
    """Return the HTML of a template, as a node."""
    html = builder.templates.render(f"{name}.html", values)
    return HtmlNode(html=html.strip())


def _sign_of(
    builder: StandaloneHTMLBuilder, entry: Entry, *, is_link: bool
) -> HtmlNode:
    """Return the sign of a claim, which may open its panel."""
    sign = sign_of(entry.verdict, entry.needs)
    return render_for_claim(
        builder, "sign", entry=entry, sign=sign, is_link=is_link
    )


def _put_behind(node: nodes.Element, sign: HtmlNode) -> None:
    """Add a sign after some words, or at the end of a whole paragraph."""
    if isinstance(node, nodes.paragraph):
        node += sign
    else:
        node.parent.insert(node.parent.index(node) + 1, sign)


def _add_script(page: PageContext) -> None:
    """Load the script on pages that have a panel."""
    if 'class="claim-panel' in page.values.get("body", ""):
        page.app.add_js_file("claims.js", loading_method="defer")


def setup_panels(app: Sphinx) -> None:
    """Add the sign, its style and its script."""
    app.add_css_file("claims.css")
    add_html_node(app, HtmlNode)
    app.connect("doctree-resolved", _add_panels)
    on_page_context(app, _add_script)
