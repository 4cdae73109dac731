"""End each page that has a snippet with its program, to download and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from extensions.files.topics import Topic
from extensions.site.page_basis import root_of

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.util.typing import ExtensionMetadata


class AddProgram(SphinxTransform):
    """Add links to the script and the notebook that sphinx-gallery wrote."""

    default_priority = 400  # before Sphinx collects the downloads

    def apply(self) -> None:
        """Append one line of links to the page's outermost section."""
        topic = Topic(root_of(self.env), self.env.docname)
        if topic.is_recipe or not topic.snippet.exists():
            return
        line = nodes.paragraph("", "Run this page yourself: ")
        line["classes"].append("program")
        for ending, words in ((".py", "script"), (".ipynb", "notebook")):
            target = f"/code/{topic.name}{ending}"
            reference = addnodes.download_reference(
                "",
                "",
                nodes.Text(f"{words} ({topic.snippet.stem}{ending})"),
                refdoc=self.env.docname,
                reftarget=target,
            )
            line += [reference, nodes.Text(" · ")]
        line.pop()
        sections = list(self.document.findall(nodes.section))
        (sections[0] if sections else self.document).append(line)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Add the transform."""
    app.add_transform(AddProgram)
    return {
        "version": "1",
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
