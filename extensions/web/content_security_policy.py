"""A content security policy: browsers run only the scripts of the site.

Scripts are loaded from the site itself; inline ones are allowed by their hash,
which is computed from the templates that contain them.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from extensions.build.dependencies import builder_of
from extensions.build.page_context import PageContext, on_page_context
from extensions.core.reading import text_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_INLINE = re.compile(r"<script>(.*?)</script>", re.DOTALL)
# Scripts are of the site, or known by their hash. Styles may stand in the
# page, where the theme puts colours.
_POLICY = (
    "default-src 'self'; script-src 'self' {known};"
    " style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
    " object-src 'none'; base-uri 'self'; form-action 'self'"
)


@cache
def policy(folders: tuple[str, ...]) -> str:
    """Return the policy for pages written with templates of some folders."""
    found = set()
    for folder in folders:
        for path in Path(folder).rglob("*.html"):
            for script in _INLINE.findall(text_of(path)):
                digest = hashlib.sha256(script.encode()).digest()
                found.add(f"'sha256-{base64.b64encode(digest).decode()}'")
    return _POLICY.format(known=" ".join(sorted(found)))


def _add_policy(page: PageContext) -> None:
    """Write the policy into the head of a page, before any script."""
    folders = tuple(map(str, builder_of(page.app).templates.pathchain))
    html = '\n    <meta http-equiv="Content-Security-Policy" content="{}">'
    page.add_to_head(html.format(policy(folders)), first=True)


def setup_content_security_policy(app: Sphinx) -> None:
    """Add the policy to each page."""
    on_page_context(app, _add_policy)
