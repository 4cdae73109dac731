"""What a feature knows of the site, and what it adds: chapters, titles and
addresses, what stands around each page, and files beside the pages.

The order of the chapters is the one of the table of contents on the front
page, and stands nowhere else.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from docutils import nodes
from sphinx.addnodes import toctree
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util.osutil import relative_uri

from extensions.core.files import write
from extensions.core.markdown import words_of_title
from extensions.core.topics import Topic
from extensions.site.dependencies import builder_of, depend_on, root_of

INDEX = "/index"
# By build: the contents of each page, without its sections.
_TITLES: WeakKeyDictionary[Sphinx, dict[str, nodes.bullet_list]] = (
    WeakKeyDictionary()
)


def chapters_of(env: BuildEnvironment) -> list[str]:
    """Return the names of the chapters as the site orders them."""
    pages = env.toctree_includes.get(env.config.root_doc, [])
    return [name.removesuffix(INDEX) for name in pages if name.endswith(INDEX)]


def reading_place(env: BuildEnvironment, chapter: str) -> int:
    """Return where a chapter stands on the site; elsewhere, at the end."""
    chapters = chapters_of(env)
    return chapters.index(chapter) if chapter in chapters else len(chapters)


def chapter_name(env: BuildEnvironment, chapter: str) -> str:
    """Return what the site calls a chapter."""
    title = env.titles.get(f"{chapter}{INDEX}")
    return title.astext() if title else chapter.capitalize()


def title_shown(env: BuildEnvironment, name: str) -> str:
    """Return the title of a page; the page being read then depends on it."""
    depend_on(env, "titles", name)
    return words_of_title(root_of(env), name)


def titles(app: Sphinx) -> dict[str, str]:
    """Return the title of each page."""
    root = root_of(app.env)
    return {name: words_of_title(root, name) for name in app.env.found_docs}


def address(env: BuildEnvironment, topic: Topic, anchor: str) -> str:
    """Return how the page being read links to a place on a topic's page."""
    page = relative_uri(f"{env.docname}.html", f"{topic.name}.html")
    return f"{page}#{anchor}"


@dataclass(frozen=True)
class PageContext:
    """A page that is about to be written."""

    app: Sphinx
    name: str
    values: dict[str, Any]
    """What the template of the page uses; to be changed in place."""
    doctree: nodes.document | None
    """The text of the page, if it is no generated one."""

    def add_to_head(self, html: str) -> None:
        """Add some HTML to the head of the page, behind the rest."""
        self.values["metatags"] = self.values.get("metatags", "") + html


def on_page_context(
    app: Sphinx, change: Callable[[PageContext], None]
) -> None:
    """Let a function change each page before it is written."""

    def handle(
        app: Sphinx,
        name: str,
        template: str,
        values: dict[str, Any],
        doctree: nodes.document | None,
    ) -> None:
        change(PageContext(app, name, values, doctree))

    app.connect("html-page-context", handle)


def navigate_by_titles(page: PageContext) -> None:
    """Copy no sections into a navigation of titles; level its captions.

    For each page, Sphinx copies the contents of all pages, and then removes
    what is no title: that was half of the time in which a page is written.
    """
    env, navigation = page.app.env, page.values["toctree"]

    def short(**options: Any) -> str:
        whole = env.tocs
        if options.get("titles_only"):
            env.tocs = _titles_alone(page.app)
        try:
            html = str(navigation(**options))
        finally:
            env.tocs = whole
        # Captions are headings, of which Sphinx does not say the level.
        return html.replace('role="heading"', 'role="heading" aria-level="2"')

    page.values["toctree"] = short


def _titles_alone(app: Sphinx) -> dict[str, nodes.bullet_list]:
    if app not in _TITLES:
        _TITLES[app] = found = {}
        for name, contents in app.env.tocs.items():
            found[name] = contents.deepcopy()
            for title in found[name].children:
                for sections in title.children[1:]:
                    if isinstance(sections, nodes.bullet_list):
                        sections[:] = [*sections.findall(toctree)]
    return _TITLES[app]


def leave_search_out(app: Sphinx) -> None:
    """Leave out the search of Sphinx: the site brings its own."""
    builder_of(app).search = False


def add_templates(app: Sphinx, package: str) -> None:
    """Let Sphinx find the templates beside the ``__init__.py`` of a package.

    Those of the site itself come first.
    """
    _add_folder(app, "templates_path", package, "templates")


def add_static(app: Sphinx, package: str) -> None:
    """Let Sphinx copy the styles and scripts of a package into ``_static``."""
    _add_folder(app, "html_static_path", package, "static")


def _add_folder(app: Sphinx, setting: str, package: str, name: str) -> None:
    # As conf.py would name it: the hash that Sphinx takes of all settings
    # must not differ from one clone to the next.
    folder = os.path.relpath(Path(package).with_name(name), app.confdir)
    app.config[setting] = [*app.config[setting], folder]


# By name: what returns its text.
SITE_FILES: dict[str, Callable[[Sphinx], str]] = {}


def write_site_files(app: Sphinx, error: Exception | None) -> None:
    """Write each file beside the pages."""
    if error:
        return
    for name, text_of in SITE_FILES.items():
        write(Path(app.outdir, name), text_of(app))
