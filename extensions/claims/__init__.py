"""Claims: words of a page that a test keeps true.

``[layer_1 stays frozen]{#layer-1-stays-frozen .claim}`` on a page has a test
``test_layer_1_stays_frozen``, and counter-examples: edits of the program that
make the words false. The *ledger* joins the three with what each run said, and
gives a *verdict*; the page shows it in a panel behind the claim.
"""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from extensions.claims import (
    sphinx_exercise,
    sphinx_ledger,
    sphinx_panels,
    sphinx_summaries,
)
from extensions.site.dependencies import ALL, KINDS, PAGE_PARTS, root_of
from extensions.site.layout import (
    SITE_FILES,
    add_static,
    add_templates,
    on_page_context,
)
from extensions.site.metadata import METADATA


def setup(app: Sphinx) -> ExtensionMetadata:
    """Set up the parts, in the order of their work."""
    app.setup_extension("extensions.evidence")
    add_templates(app, __file__)
    add_static(app, __file__)
    app.add_css_file("claims.css")

    # The ledger is read before the rules ask for it, and pages show it.
    app.connect("builder-inited", sphinx_ledger.read)
    SITE_FILES["claims.json"] = sphinx_ledger.claims_json
    SITE_FILES["unproven.txt"] = sphinx_ledger.unproven_txt

    KINDS["claims"] = sphinx_summaries.claims_now
    KINDS["sentences"] = lambda app: {
        ALL: f"{sphinx_ledger.ledger_of(app).prose}"
    }
    KINDS["corrections"] = lambda app: {
        ALL: f"{sphinx_summaries.read_corrections(root_of(app.env))}"
    }
    for name in sphinx_summaries.DEPENDENCIES:
        app.add_directive(name, sphinx_summaries.SummaryDirective)
    app.add_directive("corrected", sphinx_summaries.CorrectedDirective)
    app.add_directive("recap", sphinx_exercise.RecapDirective)
    app.add_directive("exercise", sphinx_exercise.ExerciseDirective)
    app.add_node(sphinx_exercise.RepairPlace)

    PAGE_PARTS["results of claims"] = sphinx_ledger.results_by_page
    PAGE_PARTS["the tests"] = sphinx_ledger.tests_by_page
    app.connect("env-updated", sphinx_panels.label_first_pages)
    app.connect("doctree-resolved", sphinx_summaries.render_summaries)
    # Before Sphinx highlights code, and before panels are added.
    app.connect("doctree-resolved", sphinx_exercise.put_repairs)
    app.connect("doctree-resolved", sphinx_panels.add_tally)
    app.connect("doctree-resolved", sphinx_panels.add_panels)
    app.connect("html-collect-pages", sphinx_ledger.ledger_pages)
    app.connect("html-collect-pages", sphinx_ledger.test_pages)
    on_page_context(app, sphinx_panels.add_script)
    return METADATA
