"""What each of our extensions tells Sphinx about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.core.environment import our_code

if TYPE_CHECKING:
    from sphinx.util.typing import ExtensionMetadata

# Sphinx reads all pages again after an upgrade of an extension.
METADATA: ExtensionMetadata = {
    "version": "1",
    "env_version": int(our_code()[:8], 16),
    "parallel_read_safe": True,
    "parallel_write_safe": True,
}
