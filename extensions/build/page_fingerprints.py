"""What each page of the site is written from.

Every page is written from what all share, such as the navigation, and from
parts of its own: its text, and whatever a feature shows on it. A feature adds
a function to :data:`PAGE_PARTS`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.builders.html._build_info import BuildInfo

from extensions.build.dependencies import dependencies_of
from extensions.core.environment import installed, our_code
from extensions.core.fingerprint import Fingerprint, digest
from extensions.core.reading import bytes_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.builders.html import StandaloneHTMLBuilder

# By the name of a part: what returns, page by page, what is shown of it. A
# page that no document stands behind is made by the feature that names it.
PAGE_PARTS: dict[str, Callable[[Sphinx], Mapping[str, str | bytes]]] = {}


def shared(builder: StandaloneHTMLBuilder) -> Fingerprint:
    """Return what every page is written from."""
    config, env = builder.config, builder.env
    folders = [*config.templates_path, *config.html_static_path]
    paths = [
        path
        for folder in folders
        for path in sorted(Path(builder.confdir, folder).rglob("*"))
        if path.is_file()
    ]
    # Such as the colours of code: a theme adds them once the builder knows its
    # own.
    late = BuildInfo(config, builder.tags, {"env"})
    titles = {name: node.astext() for name, node in env.titles.items()}
    return Fingerprint.of(
        {
            "our code": our_code(),
            "the libraries": installed(),
            "conf.py": builder.build_info.config_hash
            + builder.build_info.tags_hash
            + late.config_hash,
            "the templates and styles": digest(*map(bytes_of, paths)),
            "the navigation": json.dumps(
                [titles, env.toctree_includes], sort_keys=True
            ),
        }
    )


def own(app: Sphinx) -> dict[str, Fingerprint]:
    """Return what each page is written from besides, generated ones too."""
    parts: dict[str, dict[str, str | bytes]] = {}
    for name in app.env.found_docs:
        doctree = Path(app.doctreedir, f"{name}.doctree")
        parts[name] = {"its text": bytes_of(doctree)}
        for kind, known in dependencies_of(app.env).by_kind(name).items():
            parts[name][kind] = known
    for part, shown in PAGE_PARTS.items():
        for name, content in shown(app).items():
            parts.setdefault(name, {})[part] = content
    return {name: Fingerprint.of(each) for name, each in parts.items()}
