"""How a wrong verdict came about by accident, with pytest as it is.

Each test goes the steps that once ended in a claim that passed for good.
"""

import shutil
import subprocess
import sys

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import Problem
from extensions.evidence.junit import runs
from extensions.evidence.kept_results import LOCKED
from extensions.evidence.test_claims import SOME_FAILED, update

COMMAND = [sys.executable, "-m", "extensions.evidence.test_claims"]
PARAMETRIZED = """
import pytest

@pytest.mark.parametrize("n", [1, 2, 3])
def test_word_is_one(snippet, n):
    assert n < 3
    assert snippet.after("start").word == "one"

def test_word_is_one__but_not_of_another(snippet, fails):
    fails(test_word_is_one, snippet.edit('"one"', '"other"'), 1)
"""
FORCED = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_call():
    try:
        return (yield)
    except AssertionError:
        return None
"""
# A program that is right only while it is tested.
PUT_BACK = """
import pytest
from pathlib import Path

@pytest.fixture(autouse=True, scope="module")
def _():
    path = Path(__file__).parents[2] / "snippets/part/one.py"
    text = path.read_text()
    path.write_text(text.replace('"wrong"', '"one"'))
    yield
    path.write_text(text)

"""
SHADOWED = """
import pytest

@pytest.fixture
def fails():
    return lambda *_: None

"""


@pytest.fixture(autouse=True)
def _recorded(whole, recorded):
    """Go all steps beside results that are recorded."""
    shutil.copytree(recorded / LOCKED, whole / LOCKED)


@pytest.fixture
def retest(whole, capfd):
    """Test what is to be tested; return how that ended, and what it said."""

    def retest():
        try:
            status = update(whole, also=[], again=False)
        except Problem as problem:
            print(problem)
            status = 2
        said, wrong = capfd.readouterr()
        return status, said + wrong

    return retest


def retest_anew(project):
    """Do the same by the command, which asks anew what is installed."""
    done = subprocess.run(
        COMMAND, cwd=project, capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout + done.stderr


def verdict(project):
    """Return what the site would say of the claim that a word is one."""
    found = runs([project / "build/evidence", project / "evidence"])
    return read_ledger(project, found).of("part/one")[0].verdict


def edit(path, old, new):
    """Change a passage of a file."""
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_a_library_that_is_upgraded(whole):
    library, info = whole / "fakelib.py", whole / "fakelib-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Name: fakelib\nVersion: 1.0\n")
    library.write_text('def f():\n    return "one"\n')
    snippet = whole / "snippets/part/one.py"
    edit(snippet, 'word = "one"', "from fakelib import f; word = f()")
    test = whole / "tests/part/test_one.py"
    edit(test, "'\"one\"', '\"other\"'", "'f()', '\"other\"'")
    assert (retest_anew(whole)[0], verdict(whole)) == (0, "passed")

    (info / "METADATA").write_text("Name: fakelib\nVersion: 2.0\n")
    library.write_text('def f():\n    return "two"\n')
    status, said = retest_anew(whole)

    because = "tests.part.test_one: tested, because another fakelib"
    assert because in said.splitlines()
    assert (status, verdict(whole)) == (SOME_FAILED, "failed")


def test_a_program_that_changes_while_it_is_tested_and_is_put_back(
    whole, retest
):
    edit(whole / "snippets/part/one.py", 'word = "one"', 'word = "wrong"')
    test = whole / "tests/part/test_one.py"
    test.write_text(PUT_BACK + test.read_text())
    status, said = retest()

    assert said.endswith("tests without a result: tests.part.test_one\n")
    assert (status, verdict(whole)) == (SOME_FAILED, "missing")


def test_a_case_that_the_environment_deselects(whole, retest, monkeypatch):
    (whole / "tests/part/test_one.py").write_text(PARAMETRIZED)
    case = "tests/part/test_one.py::test_word_is_one[3]"
    options = f"-k 'not 3' --deselect={case}"
    monkeypatch.setenv("PYTEST_ADDOPTS", options)

    assert retest()[0] == SOME_FAILED
    assert verdict(whole) == "failed"


def test_a_case_that_the_settings_deselect(whole, retest):
    (whole / "tests/part/test_one.py").write_text(PARAMETRIZED)
    settings = whole / "pyproject.toml"
    text = settings.read_text()
    edit(settings, 'addopts = ["-ra", ', 'addopts = ["-k", "not 3", ')
    status, said = retest()
    assert "1 deselected" in said
    assert said.endswith("tests without a result: tests.part.test_one\n")
    assert (status, verdict(whole)) == (SOME_FAILED, "missing")

    settings.write_text(text)
    assert retest()[0] == SOME_FAILED
    assert verdict(whole) == "failed"


def test_a_conftest_that_forces_success_and_goes(whole, retest):
    conftest = whole / "conftest.py"
    conftest.write_text(FORCED)
    edit(whole / "snippets/part/one.py", 'word = "one"', 'word = "ones"')
    edit(whole / "tests/part/test_one.py", "'\"one\"'", "'\"ones\"'")
    retest()
    assert verdict(whole) == "passed"

    conftest.unlink()
    assert verdict(whole) == "stale"
    assert retest()[0] == SOME_FAILED
    assert verdict(whole) == "failed"


def test_a_module_that_skips_itself(whole, retest):
    assert retest()[0] == 0
    test = whole / "tests/part/test_one.py"
    skip = 'import pytest\npytest.importorskip("nothing_like_it")\n'
    test.write_text(skip + test.read_text())
    status, said = retest()

    assert "found no tests: what it was to test has no result" in said
    assert (status, verdict(whole)) == (2, "missing")


def test_a_module_that_shadows_what_expects_failures(whole, retest):
    test = whole / "tests/part/test_one.py"
    test.write_text(SHADOWED + test.read_text())

    assert retest()[0] == 0
    assert verdict(whole) == "failed"


def test_a_counter_example_that_passes_is_reported_in_ten_lines(whole, retest):
    test = whole / "tests/part/test_one.py"
    test.write_text(test.read_text().replace("'\"one\"'", "'print'"))
    edit(test, "'\"other\"'", "'str'")
    _, said = retest()
    _, _, report = said.partition("test_word_is_one__but_not_of_another ___")
    lines = report.partition("=====")[0].strip("_ \n").splitlines()

    assert len(lines) <= 10
    assert "tests/part/test_one.py:7: AssertionError" in lines
    assert (
        "E       AssertionError: test_word_is_one passes:"
        " the words are still true; change what makes them false, or name it"
        " as a variation, __also_..."
    ) in lines
