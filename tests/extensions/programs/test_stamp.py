"""What says whether the outputs of a program are right as they stand."""

import pytest

from extensions.core.topics import Topic
from extensions.programs import stamp

SETTINGS = "as conf.py has them"


@pytest.fixture
def topic(tmp_path):
    """A program that has run, with all that it may have left."""
    topic = Topic(tmp_path, "part/one")
    folder = topic.output.parent
    (folder / "images/thumb").mkdir(parents=True)
    topic.snippet.parent.mkdir(parents=True)
    for path in (topic.snippet, folder / "one.py"):
        path.write_text("print(1)\n")
    for name in OUTPUTS[1:]:
        (folder / name).write_text(name)
    stamp.note(topic, SETTINGS)
    return topic


OUTPUTS = (
    "one.py",
    "one.rst",
    "one.py.md5",
    "one.codeobj.json",
    "images/sphx_glr_one_001.svg",
    "images/sphx_glr_one_001_dark.svg",
    "images/thumb/sphx_glr_one_thumb.png",
)


def test_nothing_is_to_be_done_where_nothing_changed(topic):
    assert not stamp.why_stale(topic, SETTINGS)


CHANGES = {
    "edited": lambda path: path.write_text("FORGED\n"),
    "cut off": lambda path: path.write_text(path.read_text()[:3]),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("name", OUTPUTS)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_output_of_another_hand_is_made_anew(topic, name, change):
    change(topic.output.parent / name)

    assert stamp.why_stale(topic, SETTINGS) == [name]


def test_a_picture_more_is_no_output_of_the_program(topic):
    (topic.output.parent / "images/sphx_glr_one_002.svg").touch()

    why = stamp.why_stale(topic, SETTINGS)

    assert why == ["images/sphx_glr_one_002.svg"]


def test_another_program_is_named_as_the_reason(topic):
    topic.snippet.write_text("print(2)\n")

    assert stamp.why_stale(topic, SETTINGS) == ["the program"]


def test_a_program_edited_while_it_runs_and_put_back_runs_again(topic):
    (topic.output.parent / "one.py").write_text("print(2)\n")  # what ran
    stamp.note(topic, SETTINGS)

    assert stamp.why_stale(topic, SETTINGS) == ["the program"]


def test_other_settings_of_sphinx_gallery_run_the_programs_again(topic):
    assert stamp.why_stale(topic, "others") == ["sphinx_gallery_conf"]


def test_other_libraries_run_the_programs_again(topic, monkeypatch):
    monkeypatch.setattr(stamp, "installed", lambda: "torch 9.9")

    assert stamp.why_stale(topic, SETTINGS) == ["the libraries"]


def test_a_new_device_runs_the_programs_again(topic, monkeypatch):
    monkeypatch.setattr(stamp, "device", lambda: "GPU 0: NVIDIA H200")

    assert stamp.why_stale(topic, SETTINGS) == ["the device"]


def test_all_our_code_that_runs_programs_is_asked(topic, monkeypatch):
    asked = []
    monkeypatch.setattr(stamp, "our_code", lambda *of: asked.append(of) or "")

    assert stamp.why_stale(topic, SETTINGS) == ["our code"]
    assert asked == [("programs", "core")]


@pytest.mark.parametrize("text", ["", "{", "[1]", "{}", "program 1\nwith 2\n"])
def test_a_stamp_that_is_damaged_says_nothing(topic, text):
    stamp.path_of(topic).write_text(text)

    assert stamp.why_stale(topic, SETTINGS) == [stamp.NO_RUN]
