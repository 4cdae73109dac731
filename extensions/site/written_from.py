"""What each page of the site is written from, as a hash."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.files.ledger import Ledger
from extensions.files.ledger_rows import rows_by_page
from extensions.files.prose import unproven_page
from extensions.files.reading import bytes_of
from extensions.files.stamps import our_code, surroundings
from extensions.site.openings import shown_by
from extensions.site.page_basis import rests_of

if TYPE_CHECKING:
    from sphinx.builders.html import StandaloneHTMLBuilder


def digest(*parts: str | bytes) -> str:
    """Return one hash of some parts."""
    found = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        found.update(hashlib.sha256(data).digest())
    return found.hexdigest()


def shared(builder: StandaloneHTMLBuilder) -> str:
    """Return a hash of what every page is written from.

    That is the code, ours and that of libraries; the configuration; the
    templates, styles and scripts; and the navigation, which is on each page.
    """
    config, env = builder.config, builder.env
    folders = [*config.templates_path, *config.html_static_path]
    paths = [
        path
        for folder in [*folders, *config.html_extra_path]
        for path in sorted(Path(builder.confdir, folder).rglob("*"))
        if path.is_file()
    ]
    titles = {name: node.astext() for name, node in env.titles.items()}
    navigation = [titles, env.toctree_includes]
    return digest(
        surroundings(),
        our_code(),
        builder.build_info.config_hash,
        builder.build_info.tags_hash,
        *map(bytes_of, paths),
        json.dumps(navigation, sort_keys=True),
    )


def marks(builder: StandaloneHTMLBuilder, ledger: Ledger) -> dict[str, str]:
    """Return a hash for each page, those of the tests included.

    A page is written from its doctree, from what the ledger says of its
    claims, from what else it rests on, and from how pages begin that it lists.
    """
    common = shared(builder)
    runs = " ".join(run.title for run in ledger.runs)
    said = ledger.rows
    rests = rests_of(builder.env).then
    own = {
        name: digest(
            common,
            bytes_of(Path(builder.doctreedir, f"{name}.doctree")),
            *(said[entry.anchor] for entry in ledger.of(name)),
            f"{runs} {rests.get(name)}",
            f"{shown_by(builder.env, name)}",
        )
        for name in builder.env.found_docs
    }
    tests = {
        topic.tests_page: digest(common, bytes_of(topic.tests))
        for topic in ledger.tested
    }
    facts = repr([run.facts for run in ledger.runs])
    rows = {
        name: digest(common, *(said[each.anchor] for each in entries), facts)
        for name, entries in rows_by_page(ledger).items()
    }
    listed: dict[str, list[str]] = {}
    for name, sentences in ledger.lists.items():
        listed.setdefault(unproven_page(name), []).extend((name, sentences))
    lists = {name: digest(common, *each) for name, each in listed.items()}
    return own | tests | rows | lists
