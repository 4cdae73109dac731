"""Offer each page that has a program as files: notebook, script, Markdown.

They are written before the pages are read. sphinx-gallery writes a notebook of
the program alone; ours takes its place. All scripts lie in one zip as well,
and all notebooks in another, in ``docs/code/``, where a page can offer them
with ``{download}``.
"""

import io
import json
import zipfile
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from extensions.claims.ledger import repairs_of
from extensions.claims.sphinx_ledger import ledger_of
from extensions.core.files import bytes_of, write
from extensions.core.topics import Topic, topics
from extensions.notebooks.export import export_page
from extensions.notebooks.notebook import markdown_of, notebook_of
from extensions.site.dependencies import root_of
from extensions.site.errors import report
from extensions.site.nodes import put_head

# By the name of an archive: the suffix of what it holds.
ARCHIVES = {"scripts.zip": ".py", "notebooks.zip": ".ipynb"}
# The earliest that a zip can say: a real one would change at every build.
_DATE = (1980, 1, 1, 0, 0, 0)

# Opens what stands in a repository on GitHub, and nothing else.
_COLAB = "https://colab.research.google.com/github/"
# What sphinx-gallery writes about the files of a recipe.
_NOTES = {"sphx-glr-download-link-note", "sphx-glr-footer"}


def write_files(app: Sphinx) -> None:
    """Write the notebook and the Markdown of each page, and the archives."""
    found = topics(Path(app.srcdir).parent)
    for topic in found:
        if topic.page.exists():
            _write_page(app, topic)
    for name, suffix in ARCHIVES.items():
        write(Path(app.srcdir, "code", name), _zipped(found, suffix))


def _write_page(app: Sphinx, topic: Topic) -> None:
    entries = ledger_of(app).of(topic.name)
    verdicts = {each.claim.name: each.verdict for each in entries}
    base, repairs = app.config.html_baseurl, repairs_of(entries)
    page = export_page(topic, base, verdicts, repairs)
    for problem in page.problems:
        report(problem)
    notebook = notebook_of(page)
    content = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    write(topic.output.with_suffix(".ipynb"), content)
    write(Path(app.outdir, f"{topic.name}.md"), markdown_of(notebook))


def _zipped(found: list[Topic], suffix: str) -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for topic in found:
            entry = zipfile.ZipInfo(f"{topic.name}{suffix}", _DATE)
            data = bytes_of(topic.output.with_suffix(suffix))
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


class OfferFiles(SphinxTransform):
    """Put links to the files of a page into the line at its head.

    So they are on recipes, which sphinx-gallery ends in its own way, and opens
    with a link to the end. The line is no paragraph: it is no part of what a
    page says, which is counted, listed and searched.
    """

    default_priority = 400  # before Sphinx collects the downloads

    def apply(self) -> None:
        """Do so, if the page has a program."""
        topic = Topic(root_of(self.env), self.env.docname)
        if not topic.snippet.exists():
            return
        for only in list(self.document.findall(addnodes.only)):
            note = only.next_node(nodes.Element)
            if note is not None and _NOTES.intersection(note["classes"]):
                only.parent.remove(only)
        files: list[nodes.Node] = []
        for words, ending in (("notebook", ".ipynb"), ("script", ".py")):
            path = topic.output.with_suffix(ending)
            target = f"/{path.relative_to(self.env.srcdir).as_posix()}"
            file = addnodes.download_reference("", words, reftarget=target)
            file["refdoc"] = self.env.docname
            files += [file, nodes.Text(" · ")]
        uri = f"{topic.page.stem}.md"  # written beside the page
        files.append(nodes.reference("", "Markdown", refuri=uri))
        if folder := self.config.notebooks_repository:
            uri = f"{_COLAB}{folder.strip('/')}/{topic.name}.ipynb"
            colab = nodes.reference("", "Colab", refuri=uri)
            files += [nodes.Text(" · "), colab]
        put_head(self.document, files)
