"""What a notebook keeps of what a program gave."""

import pytest

from extensions.core.topics import Topic
from extensions.notebooks.cell_outputs import outputs_by_line, pictures_of

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

    <div><table>
      <tr><th>a</th></tr>
      <tr><td>1</td></tr>
    </table></div>
    <br />
"""


@pytest.fixture
def given(house):
    """Return the outputs of a cell that gave what sphinx-gallery wrote."""
    topic = Topic(house, "part/one")
    images = house / "docs/code/part/images"
    images.mkdir(exist_ok=True)
    for name in ("one", "one_dark"):
        (images / f"{name}.svg").write_text(f"<svg>{name}</svg>")

    def given(rst):
        topic.output.write_text(
            ".. GENERATED FROM PYTHON SOURCE LINES 7-8\n\n"
            f".. code-block:: Python\n\n    1\n\n\n{rst}\n\n"
        )
        return outputs_by_line(topic)[7]

    return given


def test_what_a_cell_prints_is_kept_line_by_line(house, build):
    build()

    outputs = outputs_by_line(Topic(house, "part/one"))

    [printed] = outputs[10]
    assert (printed.output_type, printed.name) == ("stream", "stdout")
    assert printed.text == "one counted\n"
    assert outputs[7] == []


def test_the_indents_and_the_empty_lines_of_what_is_printed_stay(given):
    [printed] = given(
        ".. rst-class:: sphx-glr-script-out\n\n"
        " .. code-block:: none\n\n"
        "    a\n      b\n\n    .. image:: c\n"
    )

    assert printed.text == "a\n  b\n\n.. image:: c\n"


def test_of_a_picture_the_light_one_is_kept_with_its_words(given, house):
    [picture] = given(DRAWN)

    assert picture.output_type == "display_data"
    assert picture.data == {
        "image/svg+xml": "<svg>one</svg>",
        "text/plain": "A line",
    }
    [path] = pictures_of(Topic(house, "part/one"))
    assert path == house / "docs/code/part/images/one.svg"


def test_a_table_is_kept_as_html_and_as_text(given):
    [table] = given(TABLE)

    assert table.data["text/html"].startswith("<div><table>\n  <tr><th>a")
    assert table.data["text/plain"] == "| a |\n| --- |\n| 1 |"


def test_all_that_a_cell_gave_stays_in_its_order(given):
    text = " .. code-block:: none\n\n    first\n\n"

    kinds = [each.output_type for each in given(f"{text}\n{DRAWN}\n{TABLE}")]

    assert kinds == ["stream", "display_data", "display_data"]


def test_a_program_that_never_ran_gave_nothing(unbuilt):
    topic = Topic(unbuilt, "part/one")

    assert outputs_by_line(topic) == {}
    assert [*pictures_of(topic)] == []
