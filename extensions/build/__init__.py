"""How the site is built, whatever its pages show.

Sphinx reads pages into doctrees and writes these as HTML. This package lets it
do both only where something has changed: a page names as *dependencies* what
it shows of others, and keeps a *fingerprint* of all that it was written from.
One build works at a time, and one that meets a problem ends in a line that
names the file.
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
        builder,
        cache_file,
        dependencies,
        details,
        html_node,
        lock,
        metadata,
        repeated_warnings,
        title_dependency,
    )

    errors.setup_errors(app)
    lock.setup_lock(app)
    cache_file.setup_cache_file(app)
    dependencies.setup_dependencies(app)
    title_dependency.setup_title_dependency(app)
    repeated_warnings.setup_repeated_warnings(app)
    details.setup_details(app)
    html_node.setup_html_element(app)
    builder.setup_builder(app)
    return metadata.METADATA
