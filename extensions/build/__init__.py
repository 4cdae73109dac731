"""How the site is built, whatever its pages show.

Sphinx reads pages into doctrees and writes these as HTML. A page names as
*dependencies* what it shows of others, and says in its head from what it was
made, so that it is made again where that has changed. A build that meets a
problem ends in a line that names the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.build.dependencies import depend_on, root_of
from extensions.build.warnings import report

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["depend_on", "report", "root_of"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build import errors
    from extensions.core.environment import not_installed

    # First of all: each import below may need one of these.
    if missing := not_installed("docs"):
        errors.stop(missing)
    from extensions.build import (
        cache_file,
        chapters,
        dependencies,
        details,
        html_node,
        metadata,
        site_files,
    )

    errors.setup_errors(app)
    cache_file.setup_cache_file(app)
    dependencies.setup_dependencies(app)
    chapters.setup_titles(app)
    site_files.setup_site_files(app)
    details.setup_details(app)
    html_node.setup_html_element(app)
    return metadata.METADATA
