"""Whatever a result reads: change it, and it is stale; put it back, and not.

In a project that has all that may lie between a test and its program: helpers
and what these import, conftest.py in each folder, fixtures of every kind, a
plugin of pytest, and statements that run while a module is imported.
"""

import re

import pytest

from extensions.core.topics import Topic
from extensions.evidence.dependencies import Dependencies

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
pytest_plugins = ["extensions.plugin"]
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

def pytest_collection_modifyitems():
    reports = 14
""",
    "extensions/package/__init__.py": "from .inside import exported\n",
    "extensions/package/inside.py": """
def exported():
    \"\"\"Explain 15.\"\"\"
    return 16  # a comment 17
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
# By the number that is changed; what is not listed is there for all.
WHOSE = {
    2: {"fixtures", "asked"},
    3: set(),
    7: {"fixtures"},
    8: {"imported"},
    9: {"imported", "module"},
    10: {"module"},  # the module is named as a whole
    11: {"imported", "module"},
    14: set(),
    15: set(),
    16: {"plugin"},
    17: set(),
    18: {"shared"},
    19: {"names", "decorated", "nested"},
    20: {"names", "decorated", "nested"},
    21: {"dict"},
    22: {"dict"},
    23: {"dict"},
    24: {"dict"},
    25: {"names", "decorated", "nested"},
    26: {"names", "decorated", "nested"},
    27: {"names", "decorated", "nested"},
    28: {"names", "decorated", "nested"},
    31: {"decorated"},
    33: {"fixtures"},
    34: {"plain"},
    35: {"fixtures"},
    36: {"imported"},
    37: {"plugin"},
}


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
    assert stale == WHOSE.get(number, ALL)
    assert found(topic) == before


@pytest.mark.parametrize("name", [each for each in FILES if FILES[each]])
def test_no_file_of_the_tests_may_go(topic, name):
    before = found(topic)
    (topic.root / name).unlink()

    assert found(topic) != before


def test_a_helper_that_moves_makes_nothing_stale(topic):
    before = found(topic)
    for name in ("tests/helpers/deep.py", "tests/helpers/fixtures.py"):
        path = topic.root / name
        path.rename(path.with_stem(f"{path.stem}_moved"))
    for path in topic.root.rglob("*.py"):
        text = path.read_text().replace("helpers.deep", "helpers.deep_moved")
        text = text.replace("helpers.fixtures", "helpers.fixtures_moved")
        text = text.replace("import deep as w", "import deep_moved as w")
        path.write_text(text)

    assert found(topic) == before


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("tests/part/test_one.py", "def test_plain", "# a\n\ndef test_plain"),
        ("tests/part/test_one.py", "(number):", '(number):\n    """Say."""'),
        ("tests/part/test_one.py", "(number):", "(number: int) -> None:"),
        ("tests/helpers/deep.py", "def deep():", "def deep():\n    'Say.'"),
    ],
)
def test_comments_docstrings_and_annotations_do_not_count(
    topic, name, old, new
):
    before = found(topic)
    path = topic.root / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))

    assert found(topic) == before
