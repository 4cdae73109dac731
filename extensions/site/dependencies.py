"""Which pages are made again: those that would no longer be the same.

Sphinx makes a page again where its source is newer. Ours show more than their
source: results of tests, outputs of programs, words and titles of other pages.
So each page says in its head from what it was made, and is made again where
that has changed since. A feature adds a function to :data:`KINDS`, and its
directives call :func:`depend_on`; or it adds one to :data:`PAGE_PARTS`.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Set
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from sphinx.application import Sphinx
from sphinx.builders.html import StandaloneHTMLBuilder
from sphinx.builders.html._build_info import BuildInfo  # no public way
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from extensions.core.environment import installed, our_code
from extensions.core.files import bytes_of, remove
from extensions.core.fingerprint import Fingerprint, digest

_logger = logging.getLogger(__name__)

ALL = ""  # the part that is the whole
# What pages can depend on, by kind: a text for each part, which is another
# once that part has changed. Known before any page is read.
KINDS: dict[str, Callable[[Sphinx], Mapping[str, str]]] = {
    "pages": lambda app: {ALL: " ".join(sorted(app.env.found_docs))}
}
# What a feature shows on each page without being asked, by the name of what
# it shows; on pages that no document stands behind, too. Known once all pages
# are read.
PAGE_PARTS: dict[str, Callable[[Sphinx], Mapping[str, str]]] = {}
_DEPENDS_ON = "depends_on"  # in the metadata of a page, which Sphinx keeps
_MADE_FROM = '\n<meta name="made-from" content="{}">'
_MOST = 4  # pages to name where many are made again for one reason

# By build: from what each page is made, and the pages to write.
_NOW: WeakKeyDictionary[Sphinx, dict[str, Fingerprint]] = WeakKeyDictionary()
_CHANGED: WeakKeyDictionary[Sphinx, Set[str]] = WeakKeyDictionary()


def root_of(env: BuildEnvironment) -> Path:
    """Return the folder of the project: its pages are in docs/."""
    return Path(env.srcdir).parent


def builder_of(app: Sphinx) -> StandaloneHTMLBuilder:
    """Return the builder, which no feature has to ask what it is."""
    return cast("StandaloneHTMLBuilder", app.builder)


def depend_on(env: BuildEnvironment, kind: str, part: str = ALL) -> None:
    """Note that the page being read depends on something, there or missing."""
    noted = env.metadata[env.docname].setdefault(_DEPENDS_ON, set())
    noted.add((kind, part))


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
    return _MADE_FROM.format("; ".join(f"{k}: {v}" for k, v in parts.items()))


def pages_to_read(
    app: Sphinx, env: BuildEnvironment, *_: Set[str]
) -> list[str]:
    """Return the pages that depend on something that has changed."""
    reasons = {}
    for name, parts in _depended_on(app).items():
        now = _fingerprint(env, parts)
        before = _before(Path(app.outdir, f"{name}.html")).parts
        own = {kind: before.get(kind, "") for kind in parts}
        reasons[name] = now.changes_since(Fingerprint(own))
    return _with_reasons("to be read", reasons)


def pages_to_write(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages that were made from something else, or not made."""
    pages = _depended_on(app)
    for name, parts in pages.items():
        files = [env.doc2path(name), *sorted(env.dependencies[name])]
        parts["text"] = _hash_of_files(
            Path(app.srcdir, file) for file in files
        )
    for part, of in PAGE_PARTS.items():
        for name, shown in of(app).items():
            pages.setdefault(name, {})[part] = shown
    shared = _of_all_pages(app)
    _NOW[app] = now = {
        name: _fingerprint(env, shared | parts)
        for name, parts in pages.items()
    }
    before = {
        path.relative_to(app.outdir).with_suffix("").as_posix(): _before(path)
        for path in Path(app.outdir).rglob("*.html")
    }
    for name in before.keys() - now.keys():
        if before[name].parts:  # a page of ours that is gone
            remove(Path(app.outdir, f"{name}.html"))
    nothing = Fingerprint()
    reasons = {
        name: now[name].changes_since(before.get(name, nothing))
        for name in now
    }
    changed = _with_reasons("to be written", reasons)
    _CHANGED[app] = {*changed}
    return [name for name in changed if name in env.found_docs]


def _depended_on(app: Sphinx) -> dict[str, dict[str, str]]:
    now = {kind: of(app) for kind, of in KINDS.items()}
    found: dict[str, dict[str, str]] = {}
    for name in app.env.found_docs:
        parts = found[name] = {}
        noted = app.env.metadata[name].get(_DEPENDS_ON, ())
        for kind, part in sorted(noted):
            said = f"{part} {now[kind].get(part)}\n"
            parts[kind] = parts.get(kind, "") + said
    return found


def _of_all_pages(app: Sphinx) -> dict[str, str]:
    config, env, early = app.config, app.env, builder_of(app).build_info
    # Such as the colours of code: a theme adds them later.
    late = BuildInfo(config, app.tags, {"env"})
    folders = [*config.templates_path, *config.html_static_path]
    titles = {name: node.astext() for name, node in env.titles.items()}
    navigation = [titles, env.toctree_includes]
    return {
        "our code": our_code(),
        "libraries": installed(),
        "conf.py": early.config_hash + early.tags_hash + late.config_hash,
        "templates and styles": _hash_of_files(
            path
            for folder in folders
            for path in sorted(Path(app.confdir, folder).rglob("*"))
        ),
        "navigation": json.dumps(navigation, sort_keys=True),
    }


def _hash_of_files(paths: Iterable[Path]) -> str:
    return digest(*(bytes_of(path) for path in paths if path.is_file()))


def _fingerprint(
    env: BuildEnvironment, parts: Mapping[str, str]
) -> Fingerprint:
    """Return the hash of parts, wherever the project stands."""
    root = str(root_of(env))
    return Fingerprint.of(
        {name: each.replace(root, "") for name, each in parts.items()}
    )


def _before(path: Path) -> Fingerprint:
    """Return from what a page says that it was made; nothing if it is not."""
    if not path.is_file():
        return Fingerprint()
    pattern = _MADE_FROM.format('([^"]*)').encode()
    found = re.search(pattern, bytes_of(path))
    said = found[1].decode() if found else ""
    return Fingerprint(dict(re.findall(r"(?:^|; )([^:;]+): (\w+)", said)))


def _with_reasons(what: str, reasons: Mapping[str, list[str]]) -> list[str]:
    """Return the pages for which there are reasons; log them by reason."""
    because: dict[str, list[str]] = {}
    for name, why in sorted(reasons.items()):
        if why:
            because.setdefault(", ".join(why), []).append(name)
    for reason, names in because.items():
        few = ", ".join(names) if len(names) <= _MOST else ""
        said = few or f"{len(names)} pages"
        _logger.info("%s: %s (%s)", said, what, reason)
    return [name for names in because.values() for name in names]
