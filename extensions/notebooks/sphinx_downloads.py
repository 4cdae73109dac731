"""End each page that has a program with its files, to download and run.

So do recipes, which sphinx-gallery ends in its own way, and opens with a link
to the end.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from extensions.build.dependencies import root_of
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx


# Opens what stands in a repository on GitHub, and nothing else.
_COLAB = "https://colab.research.google.com/github/"
# What sphinx-gallery writes about the files of a recipe.
_NOTES = {"sphx-glr-download-link-note", "sphx-glr-footer"}


class _AddProgram(SphinxTransform):
    """Add links to the script, the notebook and the text of a page."""

    default_priority = 400  # before Sphinx collects the downloads

    def apply(self) -> None:
        """Append one line of links to the page's outermost section."""
        topic = Topic(root_of(self.env), self.env.docname)
        if not topic.snippet.exists():
            return
        for only in list(self.document.findall(addnodes.only)):
            note = only.next_node(nodes.Element)
            if note is not None and _NOTES.intersection(note["classes"]):
                only.parent.remove(only)
        files = topic.output.relative_to(Path(self.env.srcdir))
        line = nodes.paragraph("", "Run this page yourself: ")
        line["classes"].append("program")
        for ending, words in ((".py", "script"), (".ipynb", "notebook")):
            target = f"/{files.with_suffix(ending).as_posix()}"
            reference = addnodes.download_reference(
                "",
                "",
                nodes.Text(f"{words} ({topic.snippet.stem}{ending})"),
                refdoc=self.env.docname,
                reftarget=target,
            )
            line += [reference, nodes.Text(" · ")]
        uri = f"{topic.page.stem}.md"  # written beside the page
        line.append(nodes.reference("", f"text ({uri})", refuri=uri))
        if folder := self.config.notebooks_repository:
            uri = f"{_COLAB}{folder.strip('/')}/{topic.name}.ipynb"
            line += nodes.Text(" · ")
            line += nodes.reference("", "open in Colab", refuri=uri)
        sections = list(self.document.findall(nodes.section))
        (sections[0] if sections else self.document).append(line)


def setup_downloads(app: Sphinx) -> None:
    """Add the transform, and the value."""
    app.add_config_value("notebooks_repository", "", "env", str)
    app.add_transform(_AddProgram)
