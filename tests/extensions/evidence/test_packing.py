"""A run as the repository keeps it."""

import gzip
from dataclasses import asdict
from xml.etree import ElementTree

import pytest

from extensions.claims.ledger import read_ledger
from extensions.core.files import Problem, bytes_of, xml_of
from extensions.evidence.junit import runs
from extensions.evidence.packing import packed
from tests.helpers.evidence import FACTS, record

CASES = """
<testsuites><testsuite name="pytest" hostname="here" time="1.0">
<properties><property name="torch" value="2.6.0" /></properties>
<testcase classname="tests.a" name="test_b[2]" time="0.5"><properties>
<property name="depends on" value="1" /><property name="said" value="x" />
</properties></testcase>
<testcase classname="tests.a" name="test_b[1]"><properties>
<property name="depends on" value="1" /></properties></testcase>
<testcase classname="tests.a" name="test_c[1]">
<failure message="assert 1&#10;more">long</failure></testcase>
<testcase classname="tests.a" name="test_c[2]" />
<testcase classname="tests.a" name="test_a"><skipped message="why" />
</testcase></testsuite></testsuites>
"""


def lines_of(data):
    """Return what a packed run holds, an element a line."""
    root = ElementTree.fromstring(gzip.decompress(data))
    return [
        " ".join([each.tag, *each.attrib.values()]) for each in root.iter()
    ]


def test_a_packed_run_holds_what_pages_show():
    assert lines_of(packed(ElementTree.fromstring(CASES))) == [
        "testsuites",
        "testsuite pytest",
        "properties",
        "property torch 2.6.0",
        "testcase tests.a test_a",
        "skipped why",
        "testcase tests.a test_b[1]",
        "properties",
        "property depends on 1",
        "testcase tests.a test_c[1]",
        "failure assert 1",
        "testcase tests.a test_c[2]",
    ]


def test_the_same_results_give_the_same_bytes():
    other = CASES.replace("0.5", "0.7").replace("here", "there")

    assert packed(ElementTree.fromstring(CASES)) == packed(
        ElementTree.fromstring(other)
    )


@pytest.mark.parametrize(
    "word", ["passed", "failed", "skipped for cuda", "skipped"]
)
def test_the_ledger_reads_it_as_it_reads_the_run(house, word):
    path = record(house, "evidence/other", test_word_is_one=word)
    folders = [house / "build/evidence", house / "evidence"]
    before = read_ledger(house, runs(folders))
    data = packed(xml_of(path))
    path.unlink()
    path.with_name("tests.xml.gz").write_bytes(data)
    after = read_ledger(house, runs(folders))

    assert [run.facts for run in after.runs] == [FACTS, FACTS]
    assert [asdict(a) for b in before.entries for a in b.outcomes] == [
        asdict(a) for b in after.entries for a in b.outcomes
    ]


@pytest.mark.parametrize("damage", [b"", b"\x1f\x8b", b"plain"])
def test_a_damaged_one_is_a_problem(tmp_path, damage):
    path = tmp_path / "tests.xml.gz"
    path.write_bytes(damage or gzip.compress(b"<a/>")[:-9])

    with pytest.raises(Problem, match="cannot be read"):
        bytes_of(path)
