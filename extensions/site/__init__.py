"""How the site is built, whatever its pages show.

Sphinx reads pages into doctrees and writes these as HTML. A page names as
*dependencies* what it shows of others, and says in its head from what it was
made, so that it is made again where that has changed. A build that meets a
problem ends in a line that names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.site import dependencies, errors, layout, metadata, nodes

    # Behind whatever connects when the configuration is known.
    app.connect("config-inited", errors.watch)
    app.connect("config-inited", metadata.load_cache)
    app.connect("builder-inited", layout.leave_search_out)
    dependencies.KINDS["titles"] = layout.titles
    app.connect("env-get-outdated", dependencies.pages_to_read)
    app.connect("env-updated", dependencies.pages_to_write, priority=900)
    layout.on_page_context(app, layout.say_made_from)
    app.add_node(nodes.Details, html=(nodes.open_details, nodes.close_details))
    app.add_node(
        nodes.HtmlElement, html=(nodes.open_element, nodes.close_element)
    )
    app.connect("build-finished", metadata.save_cache)
    app.connect("build-finished", layout.write_site_files)
    return metadata.METADATA
