"""Claims: words of a page that a test keeps true.

``[layer_1 stays frozen]{#layer-1-stays-frozen .claim}`` on a page has a test
``test_layer_1_stays_frozen``, and counter-examples: edits of the program that
make the words false. The *ledger* joins the three with what each run said, and
gives a *verdict*; the page shows it in a panel behind the claim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from extensions.claims.ledger import Ledger, read_ledger
from extensions.claims.page import Claim, read_page

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata

__all__ = ["Claim", "Ledger", "read_ledger", "read_page"]


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    from extensions.claims import (
        sphinx_exercise,
        sphinx_json,
        sphinx_labels,
        sphinx_ledger,
        sphinx_ledger_pages,
        sphinx_navigation,
        sphinx_panels,
        sphinx_recap,
        sphinx_summaries,
        sphinx_tally,
        sphinx_test_pages,
    )
    from extensions.site.layout import add_static, add_templates
    from extensions.site.metadata import METADATA

    app.setup_extension("extensions.evidence")
    add_templates(app, __file__)
    add_static(app, __file__)
    sphinx_ledger.setup_ledger(app)
    sphinx_summaries.setup_summaries(app)
    sphinx_recap.setup_recap(app)
    sphinx_exercise.setup_exercise(app)
    sphinx_tally.setup_tally(app)
    sphinx_panels.setup_panels(app)
    sphinx_navigation.setup_navigation(app)
    sphinx_ledger_pages.setup_ledger_pages(app)
    sphinx_test_pages.setup_test_pages(app)
    sphinx_json.setup_claims_json(app)
    sphinx_labels.setup_labels(app)
    return METADATA
