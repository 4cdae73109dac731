"""Links below each page: *report a mistake*, and *edit this page*.

They need the address of the repository, which is a setting; without it, they
are left out. A report names the page and what it was tested on; where a panel
offers it, ``claims.js`` adds the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

from extensions.build.dependencies import builder_of, root_of
from extensions.build.page_context import PageContext, on_page_context
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_BRANCH = "main"


def _report(page: PageContext, repository: str) -> str:
    """Return the address at which a new issue about a page is written."""
    shown = page.app.env.titles.get(page.name)
    title = shown.astext() if shown else page.values.get("title", page.name)
    place = builder_of(page.app).get_target_uri(page.name)
    if base := str(page.app.config.html_baseurl).rstrip("/"):
        place = f"{base}/{place}"
    lines = [f"Page: {place}"]
    if own := ledger_of(page.app).own_run:
        torch, python = own.facts["torch"], own.facts["python"]
        lines.append(f"Tested on: torch {torch}, Python {python}")
    lines += ["My versions: ", "", "What is wrong: "]
    issue = {"title": f"{title}: ", "body": "\n".join(lines)}
    return f"{repository}/issues/new?{urlencode(issue, quote_via=quote)}"


def _source(page: PageContext) -> str | None:
    """Return the path of the file that a page is written in, if there is."""
    if page.doctree is None:
        return None
    env = page.app.env
    root = root_of(env)
    topic = Topic(root, page.name)
    if not topic.is_recipe:
        path = root / env.doc2path(page.name)
    elif topic.page.exists():
        path = topic.page
    else:
        path = root / "gallery/GALLERY_HEADER.rst"  # of the list of recipes
    return path.relative_to(root).as_posix()


def _add_links(page: PageContext) -> None:
    """Add the links to a page, for its footer."""
    repository = str(page.app.config.repository).rstrip("/")
    if not repository:
        return
    page.values["report"] = _report(page, repository)
    if source := _source(page):
        page.values["edit"] = f"{repository}/edit/{_BRANCH}/{quote(source)}"


def setup_page_links(app: Sphinx) -> None:
    """Add the links to each page."""
    app.add_config_value("repository", "", "html", str)
    on_page_context(app, _add_links)
