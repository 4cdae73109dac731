"""What a result rests on: an edit makes stale what it touches."""

import pytest

from extensions.core.topics import Topic
from extensions.evidence.dependencies import Dependencies, cells_up_to

PROGRAM = '''"""
One
===
"""

# %% start
word = "one"

# %% count
count = len(word)

# %% end
print(count)
'''
TESTS = """
import pytest

from tests.part.conftest import helper

LENGTH = 3
LENGTH += 0


def count_of(snippet):
    return snippet.after("count").count


def test_word(snippet):
    assert snippet.after("start").word == "one"


def test_count(snippet):
    assert count_of(snippet) == LENGTH


def test_given(given):
    assert given


@pytest.mark.parametrize("name", ["start", "count"])
def test_each(snippet, name):
    assert snippet.after(name)


def test_made(snippet):
    assert snippet.after(f"{'st'}art")


def test_all(snippet):
    assert snippet.cells()


def test_none():
    assert LENGTH
"""
CONFTEST = """
import pytest


@pytest.fixture
def given(snippet):
    return snippet.after("start")


@pytest.fixture
def other():
    return 1
"""
ALL = {"word", "count", "given", "each", "made", "all", "none"}
WHOLE = {"made", "all", "none"}


@pytest.fixture
def topic(tmp_path):
    """A topic of a program, its tests and a conftest.py beside them."""
    topic = Topic(tmp_path, "part/one")
    for path, text in (
        (topic.snippet, PROGRAM),
        (topic.tests, TESTS),
        (topic.tests.with_name("conftest.py"), CONFTEST),
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return topic


def rests(topic):
    """Return what each test depends on."""
    found = Dependencies(topic)
    return {name: found.of(f"test_{name}") for name in ALL}


def touched(topic, path, old, new):
    """Return the tests that rest on something else after an edit."""
    before = rests(topic)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    after = rests(topic)
    return {name for name in ALL if before[name] != after[name]}


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('"one"', '"two"', ALL),
        ("len(word)", "len(word) + 0", ALL - {"word", "given"}),
        ("print(count)", "print(-count)", WHOLE),
        ('word = "one"', 'word = ("one")  # a word', set()),
        ("# %% end", "# %% new\nx = 1\n\n# %% end", WHOLE),
        ("One\n===", "Two\n===", set()),
    ],
)
def test_an_edit_of_a_program_touches_the_tests_that_reach_it(
    topic, old, new, names
):
    assert touched(topic, topic.snippet, old, new) == names


@pytest.mark.parametrize(
    ("old", "new", "names"),
    [
        ('.word == "one"', '.word == "two"', {"word"}),
        ('snippet.after("count").count', "3", {"count"}),
        ("LENGTH = 3", "LENGTH = 4", {"count", "none"}),
        ("LENGTH += 0", "LENGTH += 1", {"count", "none"}),
        ('"count"]', '"count", "end"]', {"each"}),
        ("LENGTH = 3", "LENGTH = 3  # letters", set()),
        ("LENGTH = 3", "pytestmark = []\nLENGTH = 3", ALL),
    ],
)
def test_an_edit_of_the_tests_touches_what_it_is_named_by(
    topic, old, new, names
):
    assert touched(topic, topic.tests, old, new) == names


def test_an_edit_of_a_fixture_touches_what_asks_for_it(topic):
    path = topic.tests.with_name("conftest.py")

    assert touched(topic, path, "return 1", "return 2") == set()
    assert touched(topic, path, '"start"', '"count"') == {"given"}


def test_a_test_may_run_the_cells_up_to_the_last_that_it_names(topic):
    found = Dependencies(topic)

    assert found.may_run("test_word") == ["start"]
    assert found.may_run("test_each") == ["start", "count"]
    for name in WHOLE:
        assert found.may_run(f"test_{name}") == ["start", "count", "end"]


def test_an_output_rests_on_the_cells_up_to_its_own(topic):
    before = [cells_up_to(topic, name) for name in ("start", "count", "end")]
    text = topic.snippet.read_text()
    topic.snippet.write_text(text.replace("len(word)", "1"))
    after = [cells_up_to(topic, name) for name in ("start", "count", "end")]

    assert [a == b for a, b in zip(before, after, strict=True)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("broken", ["tests", "snippet"])
def test_what_cannot_be_read_lets_no_result_count(topic, broken):
    getattr(topic, broken).write_text("# %% a\nb = (")

    assert set(rests(topic).values()) == {""}
