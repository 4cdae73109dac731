"""Files that are not what they should be: each is one problem, at its line."""

import json

import pytest

from extensions.lint.rules import FIRST_RULES, RULES

SNIPPET = "snippets/part/one.py"
BAD = b"# \xff\n"


def problems(house):
    """Return what the first rules say, as lines with paths from the house."""
    found = [str(each) for rule in FIRST_RULES for each in rule(house)]
    return [each.removeprefix(f"{house}/") for each in found]


def append(name, content):
    """Return what puts something behind the content of a file."""

    def change(house):
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        before = path.read_bytes() if path.exists() else b""
        path.write_bytes(before + content)

    return change


def put(name, content):
    """Return what puts a file in its place."""

    def change(house):
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    return change


def as_folder(name):
    """Return what puts a folder in the place of a file."""

    def change(house):
        (house / name).unlink(missing_ok=True)
        (house / name).mkdir()

    return change


CASES = {
    "a snippet that is not UTF-8": (
        append(SNIPPET, BAD),
        f"{SNIPPET}:11: not UTF-8 (byte 0xff)",
    ),
    "a snippet with a byte order mark": (
        lambda house: (house / SNIPPET).write_text(
            (house / SNIPPET).read_text(), "utf-8-sig"
        ),
        f"{SNIPPET}:1: begins with a byte order mark: save it as UTF-8",
    ),
    "a recipe that is not UTF-8": (
        append("gallery/three.py", BAD),
        "gallery/three.py:17: not UTF-8 (byte 0xff)",
    ),
    "a page that is not UTF-8": (
        append("docs/part/one.md", BAD),
        "docs/part/one.md:10: not UTF-8 (byte 0xff)",
    ),
    "a page without claims that is not UTF-8": (
        append("docs/index.md", BAD),
        "docs/index.md:13: not UTF-8 (byte 0xff)",
    ),
    "a test module that is not UTF-8": (
        append("tests/part/test_one.py", BAD),
        "tests/part/test_one.py:8: not UTF-8 (byte 0xff)",
    ),
    "a header that is not UTF-8": (
        append("snippets/part/GALLERY_HEADER.rst", BAD),
        "snippets/part/GALLERY_HEADER.rst:3: not UTF-8 (byte 0xff)",
    ),
    "a list of corrections that is not UTF-8": (
        put("docs/evidence/corrections/part/one.toml", BAD),
        "docs/evidence/corrections/part/one.toml:1: not UTF-8",
    ),
    "a recording that is not UTF-8": (
        put("evidence/here/measurements.json", BAD),
        "evidence/here/measurements.json:1: not UTF-8",
    ),
    "a workload that is not UTF-8": (
        put("measurements/part/one.py", BAD),
        "measurements/part/one.py:1: not UTF-8",
    ),
    "a snippet that is a folder": (
        as_folder("snippets/part/three.py"),
        "snippets/part/three.py:1: cannot be read: Is a directory",
    ),
    "a page that is a folder": (
        as_folder("docs/part/three.md"),
        "docs/part/three.md:1: cannot be read: Is a directory",
    ),
    "a test module that is a folder": (
        as_folder("tests/part/test_one.py"),
        "tests/part/test_one.py:1: cannot be read: Is a directory",
    ),
    "an empty snippet": (
        put(SNIPPET, b""),
        f"{SNIPPET}:1: no docstring that opens with a title",
    ),
    "a snippet without a title": (
        put(SNIPPET, b'"""Words."""\n\n# %% start\n'),
        f"{SNIPPET}:1: no docstring that opens with a title",
    ),
    "a snippet without a cell": (
        put(SNIPPET, b'"""\nOne\n===\n"""\nword = "one"\n'),
        f"{SNIPPET}:1: no cell: each opens with a line '# %% name'",
    ),
    "a null byte in a snippet": (
        append(SNIPPET, b"word = '\0'\n"),
        f"{SNIPPET}:1: source code string cannot contain null bytes",
    ),
    "a snippet that does not parse": (
        append(SNIPPET, b"word = (\n"),
        f"{SNIPPET}:11: '(' was never closed",
    ),
    "a test module that does not parse": (
        append("tests/part/test_one.py", b"word = (\n"),
        "tests/part/test_one.py:8: '(' was never closed",
    ),
    "a recipe without a title": (
        put("gallery/three.py", b"# %% draw\nx = 1\n"),
        "gallery/three.py:1: no docstring that opens with a title",
    ),
    "a folder of programs without its header": (
        lambda house: (house / "snippets/part/GALLERY_HEADER.rst").unlink(),
        "snippets/part/GALLERY_HEADER.rst:1: missing gallery header",
    ),
    "a workload without words": (
        put("measurements/part/one.py", b'"""A title"""'),
        "measurements/part/one.py:1: its docstring needs a title",
    ),
}


@pytest.mark.parametrize(("change", "expected"), CASES.values(), ids=CASES)
def test_what_cannot_be_read_is_one_problem(house, change, expected):
    change(house)

    [problem] = problems(house)

    assert problem.startswith(expected), problem


def test_another_rule_ends_quietly_at_what_cannot_be_read(house):
    append(SNIPPET, b"word = (\n")(house)

    found = [str(each) for rule in RULES for each in rule(house)]

    assert found == [f"{house}/{SNIPPET}:11: '(' was never closed"]


FACTS = dict.fromkeys(
    ["device", "machine", "threads", "torch", "python", "date"], "x"
)
CASE = {"seconds": [0.1, 0.2], "peak_bytes": 1}


def recorded(**cases):
    """Return a recording of a topic with some cases."""
    topic = {"sha256": "x", "cases": cases}
    return {"facts": FACTS, "measurements": {"part/one": topic}}


RECORDINGS = {
    "none": (None, "the record"),
    "a list": ([], "the record"),
    "no facts": ({"measurements": {}}, "the record"),
    "a fact too few": (
        {"facts": FACTS | {"date": None}, "measurements": {}},
        "the record",
    ),
    "no measurements": ({"facts": FACTS}, "the record"),
    "a measurement of no known file": (
        {"facts": FACTS, "measurements": {"part/one": {"cases": {}}}},
        "part/one",
    ),
    "a measurement without cases": (
        {"facts": FACTS, "measurements": {"part/one": {"sha256": "x"}}},
        "part/one",
    ),
    "a case without seconds": (recorded(a={"peak_bytes": 1}), "part/one"),
    "a case with one round": (
        recorded(a=CASE | {"seconds": [0.1]}),
        "part/one",
    ),
    "a case that took no time": (
        recorded(a=CASE | {"seconds": [0, 0]}),
        "part/one",
    ),
    "a case with a round that took no time": (
        recorded(a=CASE, b=CASE | {"seconds": [0.1, 0]}),
        "part/one",
    ),
    "a case of unknown memory": (
        recorded(a=CASE | {"peak_bytes": None}),
        "part/one",
    ),
    "a case with more rounds than the others": (
        recorded(a=CASE, b=CASE | {"seconds": [0.1, 0.2, 0.3]}),
        "part/one",
    ),
}


@pytest.mark.parametrize(
    ("record", "part"), RECORDINGS.values(), ids=RECORDINGS
)
def test_a_recording_that_lacks_something_is_one_problem(house, record, part):
    name = "evidence/here/measurements.json"
    put(name, json.dumps(record).encode())(house)

    [problem] = problems(house)

    assert problem.startswith(f"{name}:1: {part} is not whole (")
    assert problem.endswith("): measure again")


ROW = """\
[[correction]]
source = "A text"
section = "2 Words"
said = "Said"
holds = "Holds"
claim = "word-is-one"
"""
CORRECTIONS = {
    "a bracket too few": (
        ROW.replace("[[correction]]", "[[correction"),
        "1: not TOML: Expected ']]' at the end",
    ),
    "a quote too few": (
        ROW.replace('"Said"', '"Said'),
        "4: not TOML: Illegal character '\\n'",
    ),
    "no list": ("x = 1", "1: no list of tables: [[correction]]"),
    "a number for a list": (
        "correction = 1",
        "1: no list of tables: [[correction]]",
    ),
    "a row that is no table": (
        'correction = ["row"]',
        "1: write each table below a line [[correction]]",
    ),
    "another key in the second row": (
        ROW + ROW.replace("said", "says"),
        "7: a correction has ['claim', 'holds', 'says', 'section', 'source']",
    ),
    "a number for a text": (
        ROW.replace('"Said"', "3"),
        "1: a correction needs text as its said",
    ),
}


@pytest.mark.parametrize(
    ("content", "expected"), CORRECTIONS.values(), ids=CORRECTIONS
)
def test_a_broken_list_of_corrections_is_one_problem(house, content, expected):
    name = "docs/evidence/corrections/part/one.toml"
    put(name, content.encode())(house)

    [problem] = problems(house)

    assert problem.startswith(f"{name}:{expected}"), problem
