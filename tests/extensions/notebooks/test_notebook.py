"""What the notebook of a page holds."""

import json
import re
from itertools import pairwise

import nbformat
import pytest

from extensions.core.markdown import parse
from extensions.core.topics import ROOT, Topic, topics
from extensions.notebooks.export import code_of, export_page
from extensions.notebooks.notebook import notebook_of, outputs_by_cell
from extensions.programs.outputs import outputs_file
from extensions.programs.snippet import Snippet

# A directive, a role, the attributes of a claim, a label, and what stands for
# them in a recipe: as text, as tokens.
RAW = re.compile(r":::|::$|^\.\. |\{[\w:-]+\}`|\{#|\.claim|^\(.+\)=", re.M)
MYST = {"colon_fence", "fence", "myst_role", "myst_target", "span_open"}


def kinds_in(markdown):
    """Return the types of all tokens of some Markdown, but of plain text."""
    blocks = parse(markdown)
    inline = [child for each in blocks for child in each.children or []]
    found = {token.type for token in inline}
    return found | {t.type for t in blocks if t.type != "fence" or t.info}


def cells_of(page, *arguments):
    """Return the cells of the notebook of a page."""
    notebook = notebook_of(export_page(page, *arguments))
    nbformat.validate(notebook)
    return notebook["cells"]


@pytest.mark.parametrize("topic", topics(ROOT), ids=lambda topic: topic.name)
def test_a_notebook_of_this_house_holds_its_page_and_nothing_raw(topic):
    assert not export_page(topic, "https://example.org").problems
    cells = cells_of(topic, "https://example.org")
    code = [
        each["source"].partition("\n")[2]
        if each["metadata"].get("cellView") == "form"
        else each["source"]
        for each in cells
        if each["cell_type"] == "code"
    ]
    asked = re.findall(r"\{exercise\} build ([\w-]+)", topic.page.read_text())
    shown = Snippet.read(topic.snippet).cells().items()
    assert code == [
        "# Your code" if name in asked else code_of(cell)
        for name, cell in shown
    ]
    for own, check in pairwise(cells):
        if own["source"] == "# Your code":
            assert check["metadata"]["tags"] == ["raises-exception"]
    for prose in (each for each in cells if each["cell_type"] == "markdown"):
        words = re.sub("`+[^`]+`+", "", prose["source"])
        assert not RAW.search(words)
        # Such as the answer of an exercise that asks for code.
        listed = re.sub("(?s)```python\n.*?```", "", prose["source"])
        assert not MYST & kinds_in(listed)


def test_a_notebook_says_what_to_install_and_what_its_signs_mean(house):
    page = Topic(house, "part/one")
    with page.snippet.open("a") as file:
        file.write("import os\nimport numpy\nfrom PIL import Image, torch\n")
        file.write("import torch.nn\n")
    verdicts = {"word-is-one": "passed", "other": "not run"}

    head = cells_of(page, "https://e.org", verdicts)[0]["source"]

    assert head == (
        "# One\n\nFrom [the page `part/one`](https://e.org/part/one.html) of"
        " Proven PyTorch. To install what it needs:"
        ' `pip install "torch>=2.6" numpy pillow`.\n\n'
        "✓ follows what a test has shown."
        " ○ follows what no test has shown yet: no run had what it needs."
    )


def test_a_folded_cell_is_closed_in_jupyter_and_in_colab(house):
    page = Topic(house, "part/one")
    page.page.write_text("```{cell} count\n:folded: How to count\n```")

    cell = cells_of(page, "")[-1]

    assert cell["source"].startswith("# @title How to count\nprint(word")
    assert cell["metadata"] == {
        "jupyter": {"source_hidden": True},
        "cellView": "form",
    }


GIVEN = """\
.. rst-class:: sphx-glr-script-out

 .. code-block:: none

    a
      b

    .. image:: c

.. image:: /code/part/images/one.svg
   :alt: A line
   :class: only-light

.. image:: /code/part/images/one_dark.svg
   :alt: A line
   :class: only-dark

.. raw:: html

    <div><style scoped>tr th { color: red }</style><table>
      <tr><th></th><th>a|b</th></tr>
      <tr><th>one</th><td>x &lt; <b>y</b></td></tr>
    </table></div>
    <br />
"""


def test_what_a_cell_gave_is_kept_in_its_order(house):
    topic = Topic(house, "part/one")
    images = house / "docs/code/part/images"
    images.mkdir(exist_ok=True)
    (images / "one.svg").write_text("<svg>one</svg>")
    line = Snippet.read(topic.snippet).cell("count").code_line
    outputs_file(topic).write_text(json.dumps({line: GIVEN}))

    printed, picture, table = outputs_by_cell(topic)["count"]
    outputs_file(topic).unlink()
    assert outputs_by_cell(topic) == {}  # it never ran

    assert printed["text"] == "a\n  b\n\n.. image:: c\n"
    assert picture["data"] == {
        "image/svg+xml": "<svg>one</svg>",
        "text/plain": "A line",
    }
    assert table["data"]["text/html"].startswith("<div><style")
    assert table["data"]["text/plain"].splitlines() == [
        r"|  | a\|b |",
        "| --- | --- |",
        "| one | x < y |",
    ]
