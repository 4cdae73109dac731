"""Where a library lacks, a page shows what its program gave elsewhere."""

import pytest

from extensions.core.topics import Topic
from extensions.programs.outputs import outputs_file
from extensions.programs.recorded import keep, record_of, recorded


@pytest.fixture
def topic(house):
    """A topic whose program is recorded and needs what nobody has."""
    topic = Topic(house, "part/one")
    with topic.snippet.open("a") as file:
        file.write("import a_library\n")
    path = outputs_file(topic)
    path.write_text(
        path.read_text().replace("one counted", "counted elsewhere")
    )
    keep(topic)
    return topic


def test_a_page_shows_what_is_recorded(topic, build):
    app = build()

    page = (app.outdir / "part/one.html").read_text()
    assert "counted elsewhere" in page
    assert "one counted" not in page
    assert "part/one: run, because" not in build().status.getvalue()


def test_another_program_than_the_recorded_one_is_named(topic, stopped):
    with topic.snippet.open("a") as file:
        file.write("print(2)\n")

    [said] = stopped()

    assert (
        "/part/one.py:1: ERROR: changed, and a_library is not installed here:"
        " record it with 'nox -s pretrained'"
    ) in said


def test_a_program_of_which_nothing_is_recorded_fails(topic, stopped):
    record_of(topic).unlink()

    [said] = stopped()

    assert "No module named 'a_library'" in said


def test_a_program_that_can_run_does(topic, build):
    text = topic.snippet.read_text()
    topic.snippet.write_text(text.replace("a_library", "math"))

    app = build()

    assert recorded(topic) is None
    assert "one counted" in (app.outdir / "part/one.html").read_text()
