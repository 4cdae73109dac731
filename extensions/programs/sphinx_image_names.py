"""Name the copy of each picture by the paths of all, not by who came first.

Two programs of one name, in two chapters, draw pictures of one name. Sphinx
numbers them in the order in which it happens to read their pages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sphinx.util._files import FilenameUniqDict

from extensions.build.page_fingerprints import PAGE_PARTS

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment


def _named_by_path(env: BuildEnvironment) -> FilenameUniqDict:
    named = FilenameUniqDict()
    for path, (pages, _) in sorted(env.images.items()):
        for page in sorted(pages):
            named.add_file(page, path)
    return named


def _by_page(app: Sphinx) -> dict[str, str]:
    """Return the names of the pictures of each page that has any."""
    found: dict[str, str] = {}
    for path, (pages, name) in _named_by_path(app.env).items():
        for page in pages:
            found[page] = f"{found.get(page, '')}{path} {name}\n"
    return found


def _rename(app: Sphinx, env: BuildEnvironment) -> None:
    env.images = _named_by_path(env)


def setup_image_names(app: Sphinx) -> None:
    """Rename the pictures once all pages are read."""
    PAGE_PARTS["names of its pictures"] = _by_page
    app.connect("env-updated", _rename)
