"""How the site is built, whatever its pages show.

Sphinx reads pages into doctrees and writes these as HTML. A page names as
*dependencies* what it shows of others, and says in its head from what it was
made, so that it is made again where that has changed. A build that meets a
problem ends in a line that names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.site.dependencies import depend_on, root_of
from extensions.site.errors import report

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["depend_on", "report", "root_of"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.site import dependencies, errors, metadata, nodes, site

    # Behind whatever connects when the configuration is known.
    app.connect("config-inited", errors.watch)
    app.connect("builder-inited", errors.only_html, priority=1)
    app.connect("config-inited", metadata.load_cache)
    app.connect("build-finished", metadata.save_cache)
    dependencies.setup_dependencies(app)
    dependencies.KINDS["titles"] = site.titles
    site.on_page_context(app, site.say_made_from)
    app.connect("build-finished", site.write_site_files)
    app.add_node(nodes.Details, html=(nodes.open_details, nodes.close_details))
    app.add_node(
        nodes.HtmlElement, html=(nodes.open_element, nodes.close_element)
    )
    return metadata.METADATA
