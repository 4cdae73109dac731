"""What a page says of its claims: a sign after each, and the panel it opens.

The sign is a link to the panel, which stands below the paragraph of the claim
or below its row of a table: so it never covers the sentence, is as wide as the
page, and opens without a script as well. The *tally*, a line at the foot of
the page, counts the signs, and so is their legend. The words of a claim that
other pages repeat lead to where they are proven.
"""

from collections.abc import Iterator
from functools import partial

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from extensions.claims.ledger import Entry, Ledger
from extensions.claims.page import read_page
from extensions.claims.sphinx_ledger import ledger_of, link_to_test
from extensions.claims.words import SIGNS, sign_of
from extensions.core.files import Problem
from extensions.core.topics import Topic, topics
from extensions.site.dependencies import builder_of, depend_on, root_of
from extensions.site.errors import report
from extensions.site.layout import PageContext, address
from extensions.site.nodes import (
    HtmlNode,
    html_element,
    paragraph_of,
    words,
)

_CITED = "evidence/claims"


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
    sentence = nodes.paragraph()
    lines = StringList([claims[name]], page.path.as_posix())
    directive.state.nested_parse(lines, 0, sentence)
    uri = address(directive.env, topic, name)
    link = nodes.reference(
        "", "", *sentence[0].children, internal=True, refuri=uri
    )
    link["names_claim"] = topic.name, name
    link["classes"].append("recapped")
    return link


def render_for_claim(
    builder: StandaloneHTMLBuilder, name: str, **values: object
) -> HtmlNode:
    """Return the HTML of a template, as a node."""
    html = builder.templates.render(f"{name}.html", values)
    return HtmlNode(html=html.strip())


def label_first_pages(app: Sphinx, env: BuildEnvironment) -> None:
    """Let a label of two pages lead to the first, whichever was read last.

    Claims of two pages may have one name; the inventory for other projects has
    room for one of them. A link to ``page.md#name`` has to find either, so
    each page keeps the names of its own claims.
    """
    labels = env.domains.standard_domain.anonlabels
    for topic in reversed(topics(root_of(env))):
        for claim in read_page(topic.page).claims:
            if claim.name in labels and topic.name in env.found_docs:
                labels[claim.name] = topic.name, claim.name
                ids = env.metadata[topic.name].setdefault("myst_slugs", {})
                # A line, the id, and words for a link that has none.
                ids.setdefault(claim.name, (claim.line, claim.name, ""))


def add_tally(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Say at the foot of a page how many claims have each verdict."""
    builder, ledger = builder_of(app), ledger_of(app)
    entries = ledger.of(docname)
    if not entries:
        return
    rows = builder.get_relative_uri(docname, entries[0].row_page)
    parts = list(_parts_of_tally(ledger, entries, rows))
    if number := ledger.kinds(docname)["cited"]:
        cited = builder.get_relative_uri(docname, _CITED)
        parts.append(("§", "cited", f"{number} cited", f"{cited}#cited"))
    html = builder.templates.render("page_tally.html", {"parts": parts})
    whole = next(doctree.findall(nodes.section), doctree)
    whole.append(HtmlNode(html=f"{html}\n"))


def _parts_of_tally(
    ledger: Ledger, entries: tuple[Entry, ...], rows: str
) -> Iterator[tuple[str, str, str, str]]:
    """Yield the sign of each verdict, and a link to its first claim.

    Claims that did not run are counted by what they need.
    """
    for verdict in SIGNS:
        alike: dict[tuple[str, ...], list[Entry]] = {}
        for entry in entries:
            if entry.verdict == verdict:
                alike.setdefault(entry.needs, []).append(entry)
        for needs, found in alike.items():
            sign, number = sign_of(verdict, needs), len(found)
            said = f"{number} {sign.one if number == 1 else sign.many}"
            if verdict == "passed":
                said += _tested_on(ledger, entries)
            yield sign.mark, verdict, said, f"{rows}#{found[0].anchor}"


def _tested_on(ledger: Ledger, entries: tuple[Entry, ...]) -> str:
    """Say on which torch, on which day, and on how many other versions.

    Where this build's torch could not test them, it is the newest other one.
    """
    days: dict[str, str] = {}
    for place, run in enumerate(ledger.runs):  # this build's run comes first
        found = [each.outcomes[place] for each in entries]
        passed = [each.date for each in found if each.word == "passed"]
        is_whole = {"missing", "stale"}.isdisjoint(each.word for each in found)
        if passed and (run.is_own or (run.decides and is_whole)):
            days.setdefault(run.release, max(passed))
    if not days:
        return ""
    own = ledger.own_run
    release = own.release if own and own.release in days else [*days][-1]
    said = f" on torch {release}, {days[release]}"
    if others := len(days) - 1:
        said += f", and on {others} other version{'s' if others > 1 else ''}"
    return said


def add_panels(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Add a sign after each claim of a page, and its panel below."""
    builder, ledger = builder_of(app), ledger_of(app)
    entries = {each.claim.name: each for each in ledger.of(docname)}
    for shown in doctree.findall(nodes.inline):  # a claim of another page
        entries |= {each.claim.name: each for each in _named_by(ledger, shown)}
    unseen, panels = set(entries), []
    kinds = (nodes.inline, nodes.paragraph)
    for node in [each for kind in kinds for each in doctree.findall(kind)]:
        names = unseen & set(node["ids"])
        if not names:
            continue
        unseen -= names
        entry = entries[names.pop()]
        kind = entry.verdict.replace(" ", "-")
        node["classes"] += ["claim", f"claim-{kind}"]
        _put_sign(builder, node, entry, is_link=True)
        panel = render_for_claim(
            builder,
            "panel",
            entry=entry,
            runs=list(zip(ledger.runs, entry.outcomes, strict=True)),
            row=builder.get_relative_uri(docname, entry.row_page),
            link=partial(link_to_test, builder, docname, entry),
        )
        panels.append((node, panel))
    for link in doctree.findall(nodes.reference):
        for entry in _named_by(ledger, link):
            _put_sign(builder, link, entry, is_link=False)
            in_recap = isinstance(link.parent.parent, nodes.list_item)
            if entry.ends and in_recap:
                ends = "; ".join(e.removesuffix(".") for e in entry.ends)
                said = f"Where it ends: {words(ends)}."
                html = f' <small class="claim-ends">{said}</small>'
                link.parent.append(HtmlNode(html=html))
    for name in sorted(unseen):
        claim = entries[name].claim
        message = f"claim {name!r} has the address of a heading: rename one"
        report(Problem(entries[name].topic.page, claim.line, message))
    for node, panel in reversed(panels):  # so that they keep their order
        _put_below(node, panel)


def _named_by(ledger: Ledger, node: nodes.Element) -> list[Entry]:
    topic_name, name = node.get("names_claim", ("", ""))
    return [e for e in ledger.of(topic_name) if e.claim.name == name]


def _put_sign(
    builder: StandaloneHTMLBuilder,
    node: nodes.Element,
    entry: Entry,
    *,
    is_link: bool,
) -> None:
    mark = sign_of(entry.verdict, entry.needs)
    values = {"entry": entry, "is_link": is_link, "sign": mark}
    sign = render_for_claim(builder, "sign", **values)
    if isinstance(node, nodes.paragraph):
        node += sign
    else:
        node.parent.insert(node.parent.index(node) + 1, sign)


def _put_below(node: nodes.Element, panel: nodes.Element) -> None:
    """Add a panel below the paragraph of some words, or below their row."""
    block = row = paragraph_of(node)
    while row.parent is not None and not isinstance(row, nodes.row):
        row = row.parent
    if isinstance(row, nodes.row):
        entries = row.findall(nodes.entry)
        width = sum(1 + each.get("morecols", 0) for each in entries)
        cell = html_element("td", panel, colspan=f"{width}")
        block, panel = row, html_element("tr", cell, class_="claim-row")
    block.parent.insert(block.parent.index(block) + 1, panel)


def add_script(page: PageContext) -> None:
    """Load the script on pages that have a panel."""
    if 'class="claim-panel' in page.values.get("body", ""):
        page.app.add_js_file("claims.js", loading_method="defer")
