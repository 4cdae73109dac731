"""Whatever a result reads: change it, and it is stale; put it back, and not.

In a project that has all that may lie between a test and its program: helpers
and what these import, conftest.py in each folder, fixtures of every kind, a
plugin of pytest, and statements that run while a module is imported.
"""

import re

import pytest

from extensions.core.topics import Topic
from extensions.evidence.dependencies import Dependencies, cells_up_to

FILES = {
    "snippets/part/one.py": '# %% start\nword = "one"\n\n# %% end\nlast = 1\n',
    "conftest.py": """
import pytest

def pytest_runtest_call(item):
    call_one = 1

@pytest.fixture
def from_root():
    return 2
""",
    "tests/conftest.py": """
from extensions.shared import *
pytest_plugins = ["extensions.plugin", "extensions.evidence.pytest_plugin"]
RAN = []
RAN.append(3)
print(4)
""",
    "tests/part/conftest.py": """
import pytest
from tests.helpers.fixtures import imported_fixture

@pytest.fixture(autouse=True)
def for_all():
    return 5

@pytest.fixture(name="renamed")
def some_other_name():
    return 6

class Kept:
    seven = 7

@pytest.fixture
def asks_another(from_root):
    return Kept
""",
    "tests/helpers/fixtures.py": """
import pytest
from tests.helpers.deep import deep as deeper

@pytest.fixture(params=[8])
def imported_fixture():
    return deeper()
""",
    "tests/helpers/deep.py": """
def deep():
    from tests.helpers import lazy
    return lazy.LAZY, 9

def unused():
    return 10
""",
    "tests/helpers/lazy.py": "LAZY = 11\n",
    "tests/helpers/effects.py": "import torch\ntorch.manual_seed(12)\n",
    "extensions/__init__.py": "",
    "extensions/plugin.py": """
import pytest
from extensions.package import exported

@pytest.fixture
def from_plugin():
    return exported()

@pytest.fixture(autouse=True, scope="session")
def _for_all_from_plugin():
    return 13
""",
    "extensions/evidence/pytest_plugin.py": "REPORTS = 14\n",
    "extensions/package/__init__.py": "from .inside import exported\n",
    "extensions/package/inside.py": """
def exported():
    \"\"\"Explain 15.\"\"\"
    # A comment 17.
    return 16
""",
    "extensions/shared.py": "SHARED = 18\n",
    "tests/part/test_one.py": """
import math as arithmetic
import pytest
import tests.helpers.effects
from tests.conftest import SHARED as same
from tests.helpers import deep as whole

KINDS = [19]
KINDS.append(20)
LATER = {"a": 21}
LATER["b"] = 22
ADDED = (23,)
ADDED += (24,)
if arithmetic.pi > 25:
    def sometimes():
        return 26
    KINDS.append(27)
else:
    def sometimes():
        return 28
for number in (29,):
    print(number)
arithmetic.global_setting = 30
pytestmark = pytest.mark.usefixtures("renamed")
marked = pytest.mark.filterwarnings("ignore:31")

def setup_module():
    return 32

@pytest.fixture
def local():
    return 33

def test_plain(snippet):
    assert snippet.after("start").word == 34

def test_names():
    assert KINDS

def test_dict():
    assert LATER, ADDED

def test_nested():
    assert sometimes()

@pytest.mark.parametrize("number", KINDS)
@marked
def test_decorated(number):
    assert number

def test_fixtures(local, asks_another):
    assert 35

def test_imported(imported_fixture):
    assert 36

@pytest.mark.usefixtures("from_plugin")
def test_plugin():
    assert 37

def test_shared():
    assert same

def test_module():
    assert whole.deep()

def test_asked(request):
    assert request.getfixturevalue("from_root")
""",
}
TESTS = "asked decorated dict fixtures imported module names nested plain"
ALL = {*TESTS.split(), "plugin", "shared"}
# By the number that is changed in the module; all else counts for all.
WHOSE = {
    23: {"dict"},
    24: {"dict"},
    31: {"decorated"},
    33: {"fixtures"},
    34: {"plain"},
    35: {"fixtures"},
    36: {"imported"},
    37: {"plugin"},
}
NOBODYS = {14, 15, 17}  # of the plugin that reports, a docstring, a comment


@pytest.fixture
def topic(tmp_path):
    """A topic whose tests use all of the files."""
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Topic(tmp_path, "part/one")


def found(topic):
    """Return what each test depends on."""
    depends = Dependencies(topic)
    return {name: depends.of(f"test_{name}") for name in ALL}


def test_each_test_depends_on_something(topic):
    before = found(topic)

    assert "" not in before.values()
    assert len({*before.values()}) == len(ALL)


@pytest.mark.parametrize("number", range(2, 38))
def test_a_result_is_stale_while_what_it_reads_is_other(topic, number):
    before = found(topic)
    [path] = [
        topic.root / name
        for name, text in FILES.items()
        if re.search(rf"\b{number}\b", text)
    ]
    text = path.read_text()
    path.write_text(re.sub(rf"\b{number}\b", "99", text, count=1))
    while_changed = found(topic)
    path.write_text(text)

    stale = {name for name in ALL if before[name] != while_changed[name]}
    assert stale == (set() if number in NOBODYS else WHOSE.get(number, ALL))
    assert found(topic) == before


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
SMALL = {"word", "count", "given", "each", "made", "all", "none"}
WHOLE = {"made", "all", "none"}


@pytest.fixture
def small(tmp_path):
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


def rests(small):
    """Return what each test depends on."""
    found = Dependencies(small)
    return {name: found.of(f"test_{name}") for name in SMALL}


@pytest.mark.parametrize(
    ("file", "old", "new", "names"),
    [
        ("snippet", '"one"', '"two"', SMALL),
        ("snippet", "len(word)", "len(word) + 0", SMALL - {"word", "given"}),
        ("snippet", "print(count)", "print(-count)", WHOLE),
        ("snippet", 'word = "one"', '# A word.\n\nword = "one"', set()),
        ("snippet", "# %% end", "# %% new\nx = 1\n\n# %% end", WHOLE),
        ("snippet", "One\n===", "Two\n===", set()),
        ("tests", '.word == "one"', '.word == "two"', {"word"}),
        ("tests", 'snippet.after("count").count', "3", {"count"}),
        ("tests", "LENGTH = 3", "LENGTH = 4", {"count", "none"}),
        ("tests", "LENGTH += 0", "LENGTH += 1", {"count", "none"}),
        ("tests", '"count"]', '"count", "end"]', {"each"}),
        ("tests", "LENGTH = 3", "# Letters.\nLENGTH = 3", set()),
        ("tests", "LENGTH = 3", "pytestmark = []\nLENGTH = 3", SMALL),
    ],
)
def test_an_edit_touches_the_tests_that_reach_it(small, file, old, new, names):
    before, path = rests(small), getattr(small, file)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    after = rests(small)

    assert {name for name in SMALL if before[name] != after[name]} == names


def test_a_test_may_run_the_cells_up_to_the_last_that_it_names(small):
    found = Dependencies(small)

    assert found.may_run("test_word") == ["start"]
    assert found.may_run("test_each") == ["start", "count"]
    for name in WHOLE:
        assert found.may_run(f"test_{name}") == ["start", "count", "end"]


def test_an_output_rests_on_the_cells_up_to_its_own(small):
    before = [cells_up_to(small, name) for name in ("start", "count", "end")]
    text = small.snippet.read_text()
    small.snippet.write_text(text.replace("len(word)", "1"))
    after = [cells_up_to(small, name) for name in ("start", "count", "end")]

    assert [a == b for a, b in zip(before, after, strict=True)] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize("broken", ["tests", "snippet"])
def test_what_cannot_be_read_lets_no_result_count(small, broken):
    getattr(small, broken).write_text("# %% a\nb = (")

    assert set(rests(small).values()) == {""}


READ = {each for each in FILES if FILES[each]} - {
    "extensions/evidence/pytest_plugin.py"
}


@pytest.mark.parametrize("name", sorted(READ))
def test_no_file_of_the_tests_may_go(topic, name):
    before = found(topic)
    (topic.root / name).unlink()

    assert found(topic) != before
