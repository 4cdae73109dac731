"""Files that are not what they should be: each is one problem, at its line."""

import json

import pytest

from extensions.lint import FIRST_RULES, RULES, problems_of

SNIPPET = "snippets/part/one.py"
TESTS = "tests/part/test_one.py"
HEADER = "snippets/part/GALLERY_HEADER.rst"
CORRECTIONS = "docs/evidence/corrections/part/one.toml"
RECORDING = "evidence/here/measurements.json"
WORKLOAD = "measurements/part/one.py"


def problems(house, rules=FIRST_RULES):
    """Return what rules say, as lines with paths from the house."""
    found = problems_of(house, rules)
    return [f"{each}".removeprefix(f"{house}/") for each in found]


def put(house, name, content, before=b""):
    """Put a file with some content into its place."""
    path = house / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(before + content)


# By file: the line at which there is one more.
ENDS = {
    SNIPPET: 11,
    "gallery/three.py": 17,
    "docs/part/one.md": 10,
    "docs/index.md": 13,
    TESTS: 8,
    HEADER: 3,
    CORRECTIONS: 1,
    RECORDING: 1,
    WORKLOAD: 1,
}


@pytest.mark.parametrize("name", ENDS)
def test_a_file_that_is_not_utf_8_is_one_problem(house, name):
    path = house / name
    put(house, name, b"# \xff\n", path.read_bytes() if path.exists() else b"")

    [problem] = problems(house)

    assert problem.startswith(f"{name}:{ENDS[name]}: not UTF-8 (byte 0xff)")


def test_a_folder_in_the_place_of_a_file_is_a_problem_and_none_is(house):
    (house / TESTS).unlink()
    (house / TESTS).mkdir()
    (house / HEADER).unlink()

    first, second = problems(house)

    assert first == f"{TESTS}:1: cannot be read: Is a directory"
    assert second.startswith(f"{HEADER}:1: cannot be read: No such file")


ROW = b"""\
[[correction]]
source = "A text"
section = "2 Words"
said = "Said"
holds = "Holds"
claim = "word-is-one"
"""
CASES = [
    (SNIPPET, b"", "1: no docstring that opens with a title"),
    (SNIPPET, b'"""\nOne\n===\n"""\nword = 1\n', "1: no cell: each opens"),
    (SNIPPET, b"\n\nword = '\0'\n", "1: source code string cannot contain"),
    (TESTS, b"\nword = (\n", "2: '(' was never closed"),
    ("docs/part/one.md", b"---\na: b\n", "1: front matter without an end"),
    ("docs/part/one.md", b"---\na\n---\n", "2: no 'key: value': 'a'"),
    (WORKLOAD, b'"""A title"""', "1: its docstring needs a title"),
    ("docs/synonyms.toml", b"OOM = 1", "1: no words for 'OOM': 1"),
    (
        "docs/evidence/primary_sources.toml",
        b'[[source]]\nname = "A"\npage = []',
        "1: a source has a name, a prefix and pages",
    ),
    (CORRECTIONS, ROW.replace(b'd"', b"d"), "4: not TOML: Illegal character"),
    (CORRECTIONS, ROW + ROW.replace(b"said", b"says"), "7: a correction has"),
]


@pytest.mark.parametrize(("name", "content", "said"), CASES)
def test_a_file_that_is_not_whole_is_one_problem(house, name, content, said):
    put(house, name, content)

    [problem] = problems(house)

    assert problem.startswith(f"{name}:{said}"), problem


def test_another_rule_ends_quietly_at_what_cannot_be_read(house):
    put(house, SNIPPET, b"word = (\n")

    assert problems(house, RULES) == [f"{SNIPPET}:1: '(' was never closed"]


FACTS = dict.fromkeys(
    ["device", "machine", "threads", "torch", "python", "date"], "x"
)
CASE = {"seconds": [0.1, 0.2], "peak_bytes": 1}


def recorded(**cases):
    """Return a recording of a topic with some cases."""
    topic = {"sha256": "x", "cases": cases}
    return {"facts": FACTS, "measurements": {"part/one": topic}}


WHOLE = recorded(a=CASE)
RECORDINGS = [
    ([], "the record"),
    ({"facts": FACTS}, "the record"),
    (WHOLE | {"measurements": {"part/one": {"cases": {}}}}, "part/one"),
    (recorded(a=CASE | {"seconds": [0.1]}), "part/one"),
    (recorded(a=CASE, b=CASE | {"seconds": [0.1, 0.2, 0.3]}), "part/one"),
]


@pytest.mark.parametrize(("record", "part"), RECORDINGS)
def test_a_recording_that_lacks_something_is_one_problem(house, record, part):
    put(house, RECORDING, json.dumps(record).encode())

    [problem] = problems(house)

    assert problem.startswith(f"{RECORDING}:1: {part} is not whole (")
    assert problem.endswith("): measure again")
