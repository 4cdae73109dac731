"""Which pages are made again: those that would no longer be the same.

Sphinx makes a page again where its source is newer. Ours show more than their
source: results of tests, outputs of programs, words and titles of other pages.
So each page says in its head from what it was made, and is made again where
that has changed since. A feature adds a function to :data:`KINDS`, and its
directives call :func:`depend_on`; or it adds one to :data:`PAGE_PARTS`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast
from weakref import WeakKeyDictionary

from sphinx.builders.html._build_info import BuildInfo  # no public way
from sphinx.util import logging

from extensions.core.environment import installed, our_code
from extensions.core.files import bytes_of, remove
from extensions.core.fingerprint import Fingerprint, digest

if TYPE_CHECKING:
    from collections.abc import Set

    from sphinx.application import Sphinx
    from sphinx.builders.html import StandaloneHTMLBuilder
    from sphinx.environment import BuildEnvironment

_logger = logging.getLogger(__name__)

ALL = ""  # the part that is the whole
# What pages can depend on, by kind: a text for each part, which is another
# once that part has changed. Known before any page is read.
KINDS: dict[str, Callable[[Sphinx], Mapping[str, str]]] = {}
# What a feature shows on each page without being asked, by the name of what
# it shows; on pages that no document stands behind, too. Known once all pages
# are read.
PAGE_PARTS: dict[str, Callable[[Sphinx], Mapping[str, str]]] = {}
_HEAD = 20_000  # bytes of a page among which its head is
_MADE_FROM = re.compile(rb'<meta name="made-from" content="([^"]*)">')
_MOST = 4  # pages to name where many are made again for one reason

# By build: from what each page is made, and the pages to write, with reasons.
_NOW: WeakKeyDictionary[Sphinx, dict[str, Fingerprint]] = WeakKeyDictionary()
_CHANGED: WeakKeyDictionary[Sphinx, dict[str, list[str]]]
_CHANGED = WeakKeyDictionary()


def root_of(env: BuildEnvironment) -> Path:
    """Return the folder of the project: its pages are in docs/."""
    return Path(env.srcdir).parent


def builder_of(app: Sphinx) -> StandaloneHTMLBuilder:
    """Return the builder, which no feature has to ask what it is."""
    return cast("StandaloneHTMLBuilder", app.builder)


def depend_on(env: BuildEnvironment, kind: str, part: str = ALL) -> None:
    """Note that the page being read depends on something, there or missing.

    Raises ``KeyError`` for a kind that no module has added.
    """
    if kind not in KINDS:
        raise KeyError(kind)
    _shown(env).setdefault(env.docname, set()).add((kind, part))


def is_to_be_written(app: Sphinx, name: str) -> bool:
    """Whether a page, such as a generated one, has changed since."""
    return name in _CHANGED[app]


def made_from(app: Sphinx, name: str) -> str:
    """Return what the head of a page says of that; "" if it is none of ours.

    A later build reads it with ``_before``.
    """
    if name not in _NOW[app]:
        return ""
    parts = _NOW[app][name].parts
    said = "; ".join(f"{kind}: {known}" for kind, known in parts.items())
    return f'\n<meta name="made-from" content="{said}">'


def _log_reasons(what: str, reasons: Mapping[str, list[str]]) -> None:
    """Log what happens to some pages, in one line for each reason."""
    because: dict[str, list[str]] = {}
    for name, why in sorted(reasons.items()):
        because.setdefault(", ".join(why), []).append(name)
    for reason, names in because.items():
        few = len(names) <= _MOST
        said = ", ".join(names) if few else f"{len(names)} pages"
        _logger.info("%s: %s (%s)", said, what, reason)


def _shown(env: BuildEnvironment) -> dict[str, set[tuple[str, str]]]:
    """Return by page on which parts of which kinds it depends."""
    if not hasattr(env, "shown_on_pages"):
        env.shown_on_pages = {}  # type: ignore[attr-defined]
    return env.shown_on_pages  # type: ignore[attr-defined,no-any-return]


def _path(app: Sphinx, name: str) -> Path:
    return Path(builder_of(app).get_output_path(name))


def _before(path: Path) -> Fingerprint:
    """Return from what a page says that it was made; nothing if it is not."""
    if not path.is_file():
        return Fingerprint()
    found = _MADE_FROM.search(bytes_of(path)[:_HEAD])
    said = found[1].decode() if found else ""
    return Fingerprint(dict(re.findall(r"(?:^|; )([^:;]+): (\w+)", said)))


def _fingerprint(
    env: BuildEnvironment, parts: Mapping[str, str]
) -> Fingerprint:
    """Return the hash of parts, wherever the project stands."""
    root = str(root_of(env))
    return Fingerprint.of(
        {name: each.replace(root, "") for name, each in parts.items()}
    )


def _depended_on(app: Sphinx) -> dict[str, dict[str, str]]:
    """Return by page, and by kind, what it depends on as it is now."""
    now = {kind: of(app) for kind, of in KINDS.items()}
    found: dict[str, dict[str, str]] = {}
    for name, shown in _shown(app.env).items():
        parts = found.setdefault(name, {})
        for kind, part in sorted(shown):
            said = f"{part} {now[kind].get(part)}\n"
            parts[kind] = parts.get(kind, "") + said
    return found


def _of_all_pages(app: Sphinx) -> dict[str, str]:
    """Return from what every page is made, such as the navigation."""
    config, env, early = app.config, app.env, builder_of(app).build_info
    # Such as the colours of code: a theme adds them later.
    late = BuildInfo(config, app.tags, {"env"})
    folders = [*config.templates_path, *config.html_static_path]
    paths = [
        path
        for folder in folders
        for path in sorted(Path(app.confdir, folder).rglob("*"))
        if path.is_file()
    ]
    titles = {name: node.astext() for name, node in env.titles.items()}
    return {
        "our code": our_code(),
        "libraries": installed(),
        "conf.py": early.config_hash + early.tags_hash + late.config_hash,
        "templates and styles": digest(*map(bytes_of, paths)),
        "navigation": json.dumps(
            [titles, env.toctree_includes], sort_keys=True
        ),
    }


def _to_be_read(app: Sphinx, env: BuildEnvironment, *_: Set[str]) -> list[str]:
    """Return the pages that depend on something that has changed."""
    reasons = {}
    for name, parts in _depended_on(app).items():
        before = _before(_path(app, name))
        now = _fingerprint(env, parts)
        own = {kind: before.parts.get(kind, "") for kind in now.parts}
        if why := now.changes_since(Fingerprint(own)):
            reasons[name] = why
    _log_reasons("to be read", reasons)
    return [*reasons]


def _to_be_written(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages that were made from something else, or not made."""
    pages = _depended_on(app)
    for name in env.found_docs:
        files = [env.doc2path(name), *sorted(env.dependencies[name])]
        paths = [Path(app.srcdir, file) for file in files]
        text = digest(*(bytes_of(path) for path in paths if path.is_file()))
        pages[name] = {**pages.get(name, {}), "text": text}
    for part, of in PAGE_PARTS.items():
        for name, shown in of(app).items():
            pages.setdefault(name, {})[part] = shown
    shared = _of_all_pages(app)
    now = {
        name: _fingerprint(env, shared | parts)
        for name, parts in pages.items()
    }
    _NOW[app] = now
    there = {
        path.relative_to(app.outdir).with_suffix("").as_posix(): path
        for path in Path(app.outdir).rglob("*.html")
    }
    for name in there.keys() - now.keys():
        if _before(there[name]).parts:  # a page of ours that is gone
            remove(there[name])
    _CHANGED[app] = reasons = {
        name: why
        for name in now
        if (why := now[name].changes_since(_before(_path(app, name))))
    }
    _log_reasons("to be written", reasons)
    return sorted(reasons.keys() & env.found_docs)


def _pages(app: Sphinx) -> dict[str, str]:
    """Return what says whether a page has come or gone."""
    return {ALL: " ".join(sorted(app.env.found_docs))}


def _purge(app: Sphinx, env: BuildEnvironment, docname: str) -> None:
    """Forget a page that is gone, or about to be read."""
    _shown(env).pop(docname, None)


def _merge(
    app: Sphinx,
    env: BuildEnvironment,
    docnames: Set[str],
    other: BuildEnvironment,
) -> None:
    """Take over what another process has noted of the pages that it read."""
    read = _shown(other)
    _shown(env).update({name: read[name] for name in docnames & read.keys()})


def setup_dependencies(app: Sphinx) -> None:
    """Add the handlers."""
    KINDS["pages"] = _pages
    app.connect("env-purge-doc", _purge)
    app.connect("env-merge-info", _merge)
    app.connect("env-get-outdated", _to_be_read)
    app.connect("env-updated", _to_be_written, priority=900)
