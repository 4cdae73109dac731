"""``{ledger}``, ``{tally}`` and others: summaries of claims and sentences.

A *correction* is what a source says, what holds, and the claim that shows it.
Each topic has a file of its own for them, so that a new topic edits no list:
``docs/evidence/corrections/<topic>.toml``. ``{corrected}`` shows some, chosen
by their claims, such as ``training/zero_grad#between-nothing-is-learned``.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.docutils import SphinxDirective

from extensions.claims.ledger import Ledger
from extensions.claims.page import read_page
from extensions.claims.sphinx_ledger import ledger_of, page_values
from extensions.core.files import Problem, tables_of
from extensions.core.topics import Topic
from extensions.prose.rules import read_sources
from extensions.site.dependencies import ALL, depend_on, root_of
from extensions.site.layout import chapter_name, reading_place
from extensions.site.nodes import HtmlNode

_FOLDER = "docs/evidence/corrections"


@dataclass(frozen=True)
class Correction:
    """One statement of a source, and what is true instead."""

    topic: Topic
    line: int
    source: str
    section: str
    """The part of the source, as the list of the sources names it.

    Of a primary source, a page: ``generated/torch.nn.LSTM.html``.
    """
    said: str
    holds: str
    claim: str

    @property
    def name(self) -> str:
        """The claim that it rests on, with its page."""
        return f"{self.topic.name}#{self.claim}"


def correction_files(root: Path) -> list[Path]:
    """Return the files of corrections, one for each topic that has some."""
    return sorted((root / _FOLDER).rglob("*.toml"))


def corrections_in(root: Path, path: Path) -> list[Correction]:
    """Return the corrections of one topic; ``Problem`` if one is not whole."""
    name = path.relative_to(root / _FOLDER).with_suffix("").as_posix()
    found = []
    for line, row in tables_of(path, "correction"):
        try:
            found.append(Correction(Topic(root, name), line, **row))
        except TypeError as error:
            message = "a correction has claim, holds, said, section, source"
            raise Problem(path, line, message) from error
    return found


def read_corrections(root: Path) -> list[Correction]:
    """Return the corrections of all topics."""
    return [
        row
        for path in correction_files(root)
        for row in corrections_in(root, path)
    ]


def corrections_stand(root: Path) -> Iterator[Problem]:
    """Yield corrections of no listed page, or that no claim shows."""
    pages = {each.name: each.pages for each in read_sources(root)}
    for path in correction_files(root):
        for row in corrections_in(root, path):
            claims = {each.name for each in read_page(row.topic.page).claims}
            if row.claim not in claims:
                message = f"{row.topic.name} has no claim {row.claim!r}"
                yield Problem(path, row.line, message)
            if row.section not in pages.get(row.source, [row.section]):
                message = f"{row.source!r} has no section {row.section!r}"
                yield Problem(path, row.line, message)


class Summary(HtmlNode):
    """A placeholder for an overview of the ledger.

    The text that the search should find is its attribute ``searched``.
    """


# What each summary depends on; corrections depend on the claims they name.
DEPENDENCIES = {
    "ledger": ("claims",),
    "numbers": ("claims", "corrections"),
    "tally": ("claims", "sentences"),
    "corrections": ("corrections", "titles"),
    "unproven": ("sentences", "titles"),
}


def claims_now(app: Sphinx) -> dict[str, str]:
    """Return the state of each claim, and of all of them."""
    ledger = ledger_of(app)
    found = {
        f"{each.topic.name}#{each.claim.name}": ledger.state_of([each])
        for each in ledger.entries
    }
    return found | {ALL: ledger.state_of(ledger.entries)}


class SummaryDirective(SphinxDirective):
    """Show the ledger through the template of the directive's name."""

    def run(self) -> list[nodes.Node]:
        """Return a placeholder, which is filled in when all pages are read."""
        for kind in DEPENDENCIES[self.name]:
            depend_on(self.env, kind)
        place = Summary(template=f"{self.name}.html")
        if self.name == "corrections":
            rows = read_corrections(root_of(self.env))
            for row in rows:
                depend_on(self.env, "claims", row.name)
            place["searched"] = " ".join(
                f"{row.said} {row.holds}" for row in rows
            )
        return [place]


class CorrectedDirective(SphinxDirective):
    """Show the corrections that rest on the named claims, in their order."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        """Return a placeholder, which is filled in when all pages are read."""
        depend_on(self.env, "corrections")
        known = {row.name for row in read_corrections(root_of(self.env))}
        only = self.arguments[0].split()
        for name in only:
            if name not in known:
                raise self.error(f"no correction rests on {name}")
            depend_on(self.env, "claims", name)
            depend_on(self.env, "titles", name.partition("#")[0])
        return [Summary(template="corrected.html", only=only)]


def render_summaries(
    app: Sphinx, doctree: nodes.document, docname: str
) -> None:
    """Render the templates of a page."""
    for place in doctree.findall(Summary):
        values = _values(app.env, ledger_of(app))
        values |= page_values(app.builder, docname)
        values["only"] = place.get("only")
        place["html"] = app.builder.templates.render(place["template"], values)


def _values(env: BuildEnvironment, ledger: Ledger) -> dict[str, Any]:
    groups = groupby(ledger.entries, key=lambda each: each.topic.chapter)
    chapters = {name: list(entries) for name, entries in groups}
    read = partial(reading_place, env)
    addresses = {each.name: each.prefix for each in read_sources(root_of(env))}

    verdict_of = {
        f"{each.topic.name}#{each.claim.name}": each.verdict
        for each in ledger.entries
    }
    return {
        "ledger": ledger,
        "verdicts": Counter(each.verdict for each in ledger.entries),
        "needs": Counter(
            " and ".join(each.needs) for each in ledger.entries if each.needs
        ),
        "recorded": sum(
            bool(each.own and each.own.recorded) for each in ledger.entries
        ),
        "counter_examples": sum(
            len(each.counter_examples) for each in ledger.entries
        ),
        "chapters": [
            (name, chapters[name]) for name in sorted(chapters, key=read)
        ],
        "chapter_name": partial(chapter_name, env),
        "corrections": [
            {
                "row": row,
                # Of a text that has none, the page of the sources tells.
                "address": row.source in addresses
                and addresses[row.source] + row.section,
                "verdict": verdict_of.get(row.name, "missing"),
            }
            for row in read_corrections(root_of(env))
        ],
    }
