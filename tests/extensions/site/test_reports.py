"""What a build says of what is wrong, and where."""

import shutil

import pytest

from tests.helpers.builds import written
from tests.helpers.evidence import record

PAGE, SNIPPET = "docs/part/one.md", "snippets/part/one.py"
RUN = "build/evidence/this-build/part/one.xml"
CODE = f"{PAGE}:5: WARNING: code on a page"
CLAIM = f"{PAGE}:6: WARNING: claim 'word-is-one'"


def reports(app):
    """Return what the house reported in a build."""
    lines = app.warning.getvalue().splitlines()
    return [line for line in lines if "[proven]" in line]


def test_a_whole_house_builds_without_a_warning(site):
    assert not site.warning.getvalue()


@pytest.mark.parametrize(
    ("name", "edit", "said"),
    [
        (PAGE, ("} start\n```", "} start\n```\n```c\n```"), CODE),
        (SNIPPET, ('"one"', '"o" + "ne"'), f"{CLAIM}: what test_word"),
        (RUN, ('"test_word_is_one"', '"other"'), f"{CLAIM}: no result of"),
        (
            RUN,
            ("<testsuites>", "<testsuites"),
            f"{RUN}:3: WARNING: not whole XML",
        ),
        (RUN, None, "build/evidence:1: WARNING: no run of the tests"),
    ],
)
def test_what_is_wrong_is_a_warning_at_its_line(
    house, build, name, edit, said
):
    path = house / name
    if edit:
        path.write_text(path.read_text().replace(*edit))
    else:
        shutil.rmtree(path.parents[1])

    [report] = reports(build())

    assert f"{house}/{said}" in report


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        ("failed", "its test failed"),
        ("skipped", "its test was"),
        ("skipped for cuda", None),  # it may wait for one
    ],
)
def test_a_new_result_is_reported_and_shown(house, build, outcome, said):
    record(house, test_word_is_one=outcome)

    app = build()

    assert len(reports(app)) == bool(said)
    assert all(f"{CLAIM}: {said}" in line for line in reports(app))
    assert written(app) == {"part/one", "index", "evidence/claims"}
    assert "claim-passed" not in (app.outdir / "part/one.html").read_text()


def test_a_damaged_run_leaves_the_others_standing(house, build):
    path = record(house, "evidence/other")
    path.write_bytes(b"\xff\xfe\x00")

    app = build()

    [report] = reports(app)
    assert f"{path}:1: WARNING: not " in report
    assert "Passed: word is one" in (app.outdir / "part/one.html").read_text()


def test_each_broken_file_is_a_line_and_no_program_runs(unbuilt, stopped):
    page, snippet = unbuilt / PAGE, unbuilt / SNIPPET
    page.write_bytes(b"# One\n\n\xff\n")
    snippet.write_text(snippet.read_text() + "word = (\n")

    assert stopped() == [
        f"{snippet}:11: ERROR: '(' was never closed [proven]",
        f"{page}:3: ERROR: not UTF-8 (byte 0xff): save it so [proven]",
    ]
    assert not (unbuilt / "docs/code").exists()
