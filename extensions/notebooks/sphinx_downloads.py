"""Offer the files of a page that has a program, at its head.

So do recipes, which sphinx-gallery ends in its own way, and opens with a link
to the end. The line is no paragraph: it is no part of what a page says, which
is counted, listed and searched.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING
from urllib.parse import quote

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from extensions.build.dependencies import root_of
from extensions.build.nodes import put_head
from extensions.core.topics import Topic

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator


# Opens what stands in a repository on GitHub, and nothing else.
_COLAB = "https://colab.research.google.com/github/"
# What sphinx-gallery writes about the files of a recipe.
_NOTES = {"sphx-glr-download-link-note", "sphx-glr-footer"}


class _Download(addnodes.download_reference):
    """A link to a file, which is saved under the name in ``saved``."""


class _AddProgram(SphinxTransform):
    """Add links to the notebook, the script and the Markdown of a page."""

    default_priority = 400  # before Sphinx collects the downloads

    def apply(self) -> None:
        """Put the links into the head of the page."""
        topic = Topic(root_of(self.env), self.env.docname)
        if not topic.snippet.exists():
            return
        for only in list(self.document.findall(addnodes.only)):
            note = only.next_node(nodes.Element)
            if note is not None and _NOTES.intersection(note["classes"]):
                only.parent.remove(only)
        files: list[nodes.Node] = []
        for words, ending in (("notebook", ".ipynb"), ("script", ".py")):
            files.append(self._download(topic, words, ending))
            files.append(nodes.Text(" · "))
        uri = f"{topic.page.stem}.md"  # written beside the page
        files.append(nodes.reference("", "Markdown", refuri=uri))
        if folder := self.config.notebooks_repository:
            uri = f"{_COLAB}{folder.strip('/')}/{topic.name}.ipynb"
            files.append(nodes.Text(" · "))
            files.append(nodes.reference("", "Colab", refuri=uri))
        put_head(self.document, files)

    def _download(self, topic: Topic, words: str, ending: str) -> _Download:
        """Return a link to a file, which says its chapter when it is saved."""
        path = topic.output.with_suffix(ending)
        return _Download(
            "",
            words,
            refdoc=self.env.docname,
            reftarget=f"/{path.relative_to(self.env.srcdir).as_posix()}",
            saved=f"{topic.name.replace('/', '-')}{ending}",
        )


def _open(translator: HTML5Translator, node: _Download) -> None:
    """Open a link that names the file, which Sphinx's own does not."""
    folder = translator.builder.dlpath
    translator.body.append(
        translator.starttag(
            node,
            "a",
            "",
            CLASS="reference download internal",
            href=posixpath.join(folder, quote(node["filename"])),
            download=node["saved"],
        )
    )


def _close(translator: HTML5Translator, node: _Download) -> None:
    translator.body.append("</a>")


def setup_downloads(app: Sphinx) -> None:
    """Add the transform, the node, and the value."""
    app.add_node(_Download, html=(_open, _close))
    app.add_config_value("notebooks_repository", "", "env", str)
    app.add_transform(_AddProgram)
