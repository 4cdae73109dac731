"""What the notebook of a page holds."""

import re
from contextlib import nullcontext
from itertools import pairwise
from unittest.mock import patch

import nbformat
import pytest

from extensions.core.markdown import parse
from extensions.core.topics import ROOT, Topic, topics
from extensions.notebooks.export import code_of, export_page
from extensions.notebooks.notebook import (
    check_of,
    notebook_of,
    outputs_by_cell,
)
from extensions.programs.snippet import Snippet, libraries

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


def test_the_libraries_of_a_program_are_named_for_the_installer():
    text = (
        "import os\nimport numpy as np\nfrom PIL import Image\nimport torch.nn"
        "\nfrom sklearn.datasets import load_digits"
    )

    assert libraries(text) == ["torch", "numpy", "pillow", "scikit-learn"]


def test_a_notebook_holds_the_prose_between_the_cells(house):
    page = Topic(house, "part/one")

    base = "https://example.org"
    notebook = notebook_of(export_page(page, base))

    nbformat.validate(notebook)
    kinds = [cell["cell_type"] for cell in notebook["cells"]]
    assert kinds.count("code") == 2
    first = notebook["cells"][0]["source"]
    assert first.startswith("# One")
    assert "(https://example.org/part/one.html)" in first
    assert ".claim" not in str(notebook)


@pytest.mark.parametrize(
    "topic",
    topics(ROOT),
    ids=lambda topic: topic.name,
)
@pytest.mark.parametrize("base", ["", "https://example.org"])
def test_a_notebook_of_this_house_holds_its_page_and_nothing_raw(topic, base):
    exported = export_page(topic, base)
    notebook = notebook_of(exported)

    assert not exported.words.problems
    nbformat.validate(notebook)
    cells = notebook["cells"]
    code = [
        each["source"].partition("\n")[2]
        if each["metadata"].get("cellView") == "form"
        else each["source"]
        for each in cells
        if each["cell_type"] == "code"
    ]
    snippet = Snippet.read(topic.snippet)
    asked = re.findall(r"\{exercise\} build ([\w-]+)", topic.page.read_text())
    shown = [
        "# Your code" if name in asked else code_of(cell)
        for name, cell in snippet.cells().items()
    ]
    assert (
        code
        == ([code[0]] if "torch" in libraries(snippet.text) else []) + shown
    )
    for own, check in pairwise(cells):
        if own["source"] == "# Your code":
            assert check["metadata"]["tags"] == ["raises-exception"]
    for prose in (each for each in cells if each["cell_type"] == "markdown"):
        words = re.sub("`+[^`]+`+", "", prose["source"])
        assert not RAW.search(words)
        # Such as the answer of an exercise that asks for code.
        listed = re.sub("(?s)```python\n.*?```", "", prose["source"])
        assert not MYST & kinds_in(listed)


@pytest.mark.parametrize(
    ("version", "passes"),
    [("2.5.1+cu124", False), ("2.6.0", True), ("3.0.0.dev20300101", True)],
)
def test_a_notebook_says_first_whether_torch_is_too_old(version, passes):
    [cell] = check_of(["torch", "numpy"])
    assert "# %pip install torch numpy\n" in cell["source"]
    too_old = pytest.raises(RuntimeError, match=r"2\.5\.1.* is too old")

    expected = nullcontext() if passes else too_old
    with patch("torch.__version__", version), expected:
        exec(cell["source"], {})


def test_a_notebook_without_torch_has_nothing_to_check():
    assert check_of(["numpy"]) == []


def test_a_page_that_begins_with_a_cell_loses_nothing(house):
    page = Topic(house, "part/one")
    page.page.write_text("```{cell} start\n```\n\n:::{cell} count\n:::")

    note, *cells = notebook_of(export_page(page, ""))["cells"]

    assert note["source"].startswith("The notebook of the page `part/one`")
    assert [each["source"] for each in cells] == [
        'word = "one"',
        'print(word, "counted")',
    ]


def test_a_program_without_imports_needs_nothing(house):
    page = Topic(house, "part/one")

    title = notebook_of(export_page(page, ""))["cells"][0]["source"]

    assert title == (
        "# One\n\nThe notebook of the page `part/one` of Proven PyTorch."
    )


def test_the_signs_of_a_notebook_are_explained_at_its_head(house):
    page = Topic(house, "part/one")

    def head(verdicts):
        exported = export_page(page, "", verdicts)
        return notebook_of(exported)["cells"][0]["source"]

    assert "✓" not in head({})
    assert head({"word-is-one": "passed", "other": "not run"}).endswith(
        "\n\n✓ follows what a test has shown."
        " ○ follows what no test has shown yet: no run had what it needs."
    )


def test_a_folded_cell_is_closed_in_jupyter_and_in_colab(house):
    page = Topic(house, "part/one")
    page.page.write_text("```{cell} count\n:folded: How to count\n```")

    notebook = notebook_of(export_page(page, ""))

    cell = notebook["cells"][-1]
    assert cell["source"].startswith("# @title How to count\nprint(word")
    assert cell["metadata"] == {
        "jupyter": {"source_hidden": True},
        "cellView": "form",
    }


def test_a_notebook_that_forks_says_so_first(house):
    page = Topic(house, "part/one")
    page.snippet.write_text(page.snippet.read_text() + 'how = "fork"\n')

    head = notebook_of(export_page(page, ""))["cells"][0]

    assert head["source"].endswith(
        "It forks, which Windows cannot: run it on Linux or macOS."
    )


DRAWN = """\
.. image:: /code/part/images/one.svg
   :alt: A line
   :class: only-light

.. image:: /code/part/images/one_dark.svg
   :alt: A line
   :class: only-dark
"""
TABLE = """\
.. raw:: html

    <div><style scoped>tr th { color: red }</style><table>
      <tr><th></th><th>a|b</th></tr>
      <tr><th>one</th><td>x &lt; <b>y</b></td></tr><tr><td>two</td></tr>
    </table></div>
    <br />
"""
PRINTED = """\
.. rst-class:: sphx-glr-script-out

 .. code-block:: none

    a
      b

    .. image:: c
"""


@pytest.fixture
def given(house):
    """Return the outputs of a cell that gave what sphinx-gallery wrote."""
    topic = Topic(house, "part/one")
    images = house / "docs/code/part/images"
    images.mkdir(exist_ok=True)
    (images / "one.svg").write_text("<svg>one</svg>")
    line = Snippet.read(topic.snippet).cell("count").code_line

    def given(rst):
        topic.output.write_text(
            f".. GENERATED FROM PYTHON SOURCE LINES {line}-{line}\n\n"
            f".. code-block:: Python\n\n    1\n\n\n{rst}\n\n"
        )
        return outputs_by_cell(topic)["count"]

    return given


def test_what_a_cell_gave_is_kept_in_its_order(given):
    printed, picture, table = given(f"{PRINTED}\n{DRAWN}\n{TABLE}")

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
        "| two |  |",
    ]


def test_html_that_is_no_table_has_no_words(given):
    [output] = given(".. raw:: html\n\n    <p>Words.</p>\n")

    assert output["data"]["text/plain"] == ""


def test_a_program_that_never_ran_gave_nothing(unbuilt):
    assert outputs_by_cell(Topic(unbuilt, "part/one")) == {}
