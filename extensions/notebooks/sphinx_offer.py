"""Offer each page that has a program as files: notebook, script, Markdown.

They are written before the pages are read. sphinx-gallery writes a notebook of
the program alone; ours takes its place. All scripts lie in one zip as well,
and all notebooks in another, in ``docs/code/``, where a page can offer them
with ``{download}``.
"""

from __future__ import annotations

import io
import json
import posixpath
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from extensions.claims.ledger import repairs_of
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.files import Problem, bytes_of, write
from extensions.core.topics import Topic, topics
from extensions.notebooks.export import export_page
from extensions.notebooks.markdown import markdown_of
from extensions.notebooks.notebook import notebook_of
from extensions.site.dependencies import root_of
from extensions.site.errors import report
from extensions.site.layout import PageContext, on_page_context
from extensions.site.nodes import put_head

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

    from extensions.claims.ledger import Entry

# By the name of an archive: the suffix of what it holds.
ARCHIVES = {"scripts.zip": ".py", "notebooks.zip": ".ipynb"}
# The earliest that a zip can say: a real one would change at every build.
_DATE = (1980, 1, 1, 0, 0, 0)

# Opens what stands in a repository on GitHub, and nothing else.
_COLAB = "https://colab.research.google.com/github/"
# What sphinx-gallery writes about the files of a recipe.
_NOTES = {"sphx-glr-download-link-note", "sphx-glr-footer"}


_ALTERNATE = '\n<link rel="alternate" type="text/markdown" href="{}.md">'


def write_files(app: Sphinx) -> None:
    """Write the notebook and the Markdown of each page, and the archives."""
    found = topics(Path(app.srcdir).parent)
    for topic in found:
        if topic.page.exists():
            try:
                _write_page(app, topic)
            except Problem as problem:
                report(problem)
    for name, suffix in ARCHIVES.items():
        try:
            content = _zipped(found, suffix)
            write(Path(app.srcdir, "code", name), content)
        except Problem as problem:
            report(problem)


def _write_page(app: Sphinx, topic: Topic) -> None:
    """Write the notebook and the Markdown of a page."""
    base, ledger = app.config.html_baseurl, ledger_of(app)
    entries = ledger.of(topic.name)
    verdicts = {each.claim.name: each.verdict for each in entries}
    repairs = repairs_of(entries)
    page = export_page(topic, base, verdicts, repairs)
    for problem in page.words.problems:
        report(problem)
    notebook = notebook_of(page, _scopes(entries))
    content = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    write(topic.output.with_suffix(".ipynb"), content)
    if app.builder.format == "html":
        # Its claims stand below it, with their results: it needs no signs.
        page = export_page(topic, base, repairs=repairs)
        text = markdown_of(page, ledger)
        write(Path(app.outdir, f"{topic.name}.md"), text)


def _scopes(entries: tuple[Entry, ...]) -> str:
    """Return how far some claims reach, as a list."""
    lines = []
    for entry in entries:
        if scope := entry.scope:
            lines.append(f"- {entry.claim.sentence}")
            lines += [f"  - {each}" for each in scope]
    return "\n".join(lines)


def _zipped(found: list[Topic], suffix: str) -> bytes:
    """Return a zip of one file of each topic, in their order."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for topic in found:
            entry = zipfile.ZipInfo(f"{topic.name}{suffix}", _DATE)
            data = bytes_of(topic.output.with_suffix(suffix))
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _name_markdown(page: PageContext) -> None:
    """Say in the head of a page where its Markdown is."""
    topic = Topic(root_of(page.app.env), page.name)
    if topic.snippet.exists() and page.doctree is not None:
        page.add_to_head(_ALTERNATE.format(topic.page.stem))


class _Download(addnodes.download_reference):
    """A link to a file, which is saved under the name in ``saved``."""


class _AddProgram(SphinxTransform):
    """Add links to the notebook, the script and the Markdown of a page.

    So they are on recipes, which sphinx-gallery ends in its own way, and opens
    with a link to the end. The line is no paragraph: it is no part of what a
    page says, which is counted, listed and searched.
    """

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


def setup_offer(app: Sphinx) -> None:
    """Write the files once the programs have run, and offer them."""
    app.connect("builder-inited", write_files)
    app.add_node(_Download, html=(_open, _close))
    app.add_config_value("notebooks_repository", "", "env", str)
    app.add_transform(_AddProgram)
    on_page_context(app, _name_markdown)
