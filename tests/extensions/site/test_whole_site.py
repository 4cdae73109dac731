"""The house during a build: what is reported, what is built again."""

import shutil

from extensions.claims.sphinx_ledger import ledger_of
from tests.helpers.builds import written
from tests.helpers.evidence import record


def reports(app):
    """Return what the house reported in a build."""
    lines = app.warning.getvalue().splitlines()
    return [line for line in lines if "[proven]" in line]


def test_a_whole_house_builds_without_a_warning(site):
    assert not site.warning.getvalue()
    assert len(ledger_of(site).entries) == 3


def test_a_broken_rule_is_a_warning_at_its_line(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n```python\n1\n```\n")

    [report] = reports(build())

    assert f"{page}:11: WARNING: code on a page" in report


def test_a_failed_claim_is_reported_at_its_line(house, build):
    record(house, test_word_is_one="failed")

    [report] = reports(build())

    assert "one.md:6: WARNING: claim 'word-is-one': its test failed" in report


def test_a_claim_skipped_everywhere_is_reported(house, build):
    record(house, test_word_is_one="skipped")

    [report] = reports(build())

    assert "one.md:6: WARNING: claim 'word-is-one': its test was" in report


def test_a_claim_that_needs_a_device_may_wait_for_one(house, build):
    record(house, test_word_is_one="skipped for cuda")

    app = build()

    assert reports(app) == []
    assert "claim-not-run" in (app.outdir / "part/one.html").read_text()


def test_a_claim_outside_the_evidence_is_reported(house, build):
    path = house / "build/evidence/this-build/tests.xml"
    path.write_text(
        path.read_text().replace('"test_word_is_one"', '"test_other"')
    )

    [report] = reports(build())

    assert "one.md:6: WARNING: claim 'word-is-one': no result of" in report


def test_stale_evidence_is_reported_at_the_claim(house, build):
    path = house / "snippets/part/one.py"
    path.write_text(
        path.read_text().replace('word = "one"', 'word = "o" + "ne"')
    )

    [report] = reports(build())

    assert "one.md:6: WARNING: claim 'word-is-one': what test_word" in report


def test_truncated_evidence_is_reported_once_at_its_line(house, build):
    path = house / "build/evidence/this-build/tests.xml"
    path.write_text(path.read_text()[:400])

    [report] = reports(build())

    assert f"{path}:3: WARNING: not whole XML" in report


def test_a_damaged_run_leaves_the_others_standing(house, build):
    path = record(house, "evidence/other")
    path.write_bytes(b"\xff\xfe\x00")

    app = build()

    [report] = reports(app)
    assert f"{path}:1: WARNING: not " in report
    assert "Passed: word is one" in (app.outdir / "part/one.html").read_text()


def test_a_build_without_any_run_is_reported_once(house, build):
    (house / "build/evidence/this-build/tests.xml").unlink()

    [report] = reports(build())

    assert "build/evidence:1: WARNING: no run of the tests" in report


def test_a_new_result_renews_its_page_and_the_pages_of_all(house, build):
    record(house, test_word_is_one="skipped for cuda")
    app = build()

    assert written(app) == {"part/one", "index", "evidence/claims"}


def test_a_deleted_test_is_noticed_by_the_next_build(house, build):
    (house / "tests/part/test_one.py").write_text("")
    record(house)

    assert "claim 'word-is-one' has no test" in reports(build())[0]


def test_a_deleted_page_takes_its_claims_along(house, build):
    (house / "docs/part/one.md").unlink()
    app = build()

    assert ledger_of(app).of("part/one") == ()


def test_parallel_readers_show_the_same(house, build):
    serial = (house / "out/html/part/two.html").read_text()

    build(freshenv=True, parallel=2)

    assert (house / "out/html/part/two.html").read_text() == serial


def pages(folder):
    """Return what a build wrote for readers, by path."""
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*.html")
    }


def test_a_path_with_a_space_and_an_umlaut_gives_the_same_pages(
    house, build, make_app
):
    other = house.with_name("ein Haus mit Ü")
    shutil.copytree(house, other)

    app = make_app("html", srcdir=other / "docs", builddir=other / "out")
    app.build()
    build()

    assert not app.warning.getvalue()
    assert pages(other / "out/html") == pages(house / "out/html")
