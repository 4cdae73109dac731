"""What a directive or a role means, said once."""

from unittest.mock import patch

import pytest
from docutils import nodes
from docutils.parsers.rst import Directive, directives

from extensions.claims.page import read_page
from extensions.core.directives import (
    DIRECTIVES,
    Body,
    Meaning,
    body_of,
)
from extensions.core.topics import Topic
from extensions.notebooks.export import export_page
from extensions.prose.sentences import in_markdown

DRAWING = """# Title

Words.

```{drawing}
a --> b
```
"""


class Drawing(Directive):
    """A directive as somebody may add it."""

    has_content = True

    def run(self):
        """Return what the page shows, and what the search finds of it."""
        node = nodes.container("", searched="arrowhead")
        return [node]


@pytest.fixture
def drawing(house):
    """A topic whose page uses a new directive, with its one line."""
    topic = Topic(house, "part/one")
    topic.page.write_text(topic.page.read_text() + DRAWING.split("\n", 3)[3])
    line = {"drawing": Meaning(Body.DATA, "```mermaid\n{body}\n```")}
    with patch.dict(DIRECTIVES, line):
        yield topic


def test_a_new_directive_needs_one_line(drawing):
    sentences = [each.text for each in in_markdown(DRAWING, 1)]
    export = export_page(drawing, "")
    claims = [claim.name for claim in read_page(drawing.page).claims]

    assert sentences == ["Words."]
    assert claims == ["word-is-one"]
    assert export.words.problems == []
    assert "```mermaid\na --> b\n```" in export.pieces[-1]


def test_a_new_directive_is_shown_and_searched(drawing, build):
    with patch.dict("docutils.parsers.rst.directives._directives"):
        directives.register_directive("drawing", Drawing)
        app = build()

    assert app.warning.getvalue() == ""
    assert "arrowhead" in (app.outdir / "search-index.js").read_text()
    assert "```mermaid" in (app.outdir / "part/one.md").read_text()


def test_all_directives_of_a_build_have_a_meaning(build):
    build()

    known = directives._directives
    ours = {
        name
        for name, directive in known.items()
        if getattr(directive, "__module__", "").startswith("extensions.")
    }
    assert "cell" in ours
    assert ours <= DIRECTIVES.keys()


def test_what_nobody_knows_is_taken_for_prose():
    assert body_of("lost") is Body.PROSE
