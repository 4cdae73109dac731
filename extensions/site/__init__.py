"""How the site is built, whatever its pages show.

Sphinx reads pages into doctrees and writes these as HTML. A page names as
*dependencies* what it shows of others, and says in its head from what it was
made, so that it is made again where that has changed. A problem is said in a
line that names its file.
"""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from extensions.site import dependencies, layout, metadata, nodes
from extensions.site.dependencies import made_from


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    app.connect("config-inited", metadata.load_cache)
    app.connect("builder-inited", layout.leave_search_out)
    dependencies.KINDS["titles"] = layout.titles
    app.connect("env-get-outdated", dependencies.pages_to_read)
    app.connect("env-updated", dependencies.pages_to_write, priority=900)
    layout.on_page_context(
        app, lambda page: page.add_to_head(made_from(page.app, page.name))
    )
    layout.on_page_context(app, layout.navigate_by_titles)
    app.add_node(nodes.Details, html=(nodes.open_details, nodes.close_details))
    app.add_node(nodes.HtmlNode, html=(nodes.write_html, None))
    element = nodes.open_element, nodes.close_element
    app.add_node(nodes.HtmlElement, html=element)
    app.connect("build-finished", metadata.save_cache)
    app.connect("build-finished", layout.write_site_files)
    return metadata.METADATA
