"""What a web site needs besides its pages, and no reader thinks of.

The search, the feed, ``sitemap.xml`` and ``llms.txt``, the page for addresses
that have none, what search engines and shared links show, and a policy that
lets browsers run nothing but our scripts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.build.feature_files import add_static, add_templates
    from extensions.build.metadata import METADATA
    from extensions.web import (
        asset_pruning,
        content_security_policy,
        feed,
        llms_txt,
        not_found,
        page_meta,
        plain_code,
        search,
        search_box,
        sitemap,
    )

    add_templates(app, __file__)
    add_static(app, __file__)
    plain_code.setup_plain_code(app)
    search.setup_search(app)
    search_box.setup_search_box(app)
    feed.setup_feed(app)
    llms_txt.setup_llms_txt(app)
    sitemap.setup_sitemap(app)
    not_found.setup_not_found(app)
    page_meta.setup_page_meta(app)
    content_security_policy.setup_content_security_policy(app)
    asset_pruning.setup_asset_pruning(app)
    return METADATA
