"""How far claims reach, chapter by chapter."""

import re

from tests.helpers.evidence import record


def scopes(app):
    """Return what a page says of how far the claims of a chapter reach."""
    html = (app.outdir / "evidence/scopes/part.html").read_text()
    return re.sub(r"\s*<.*?>\s*", "|", html.partition("scopes")[2])


def test_a_claim_is_told_with_its_scope(house, build):
    module = house / "tests/part/test_one.py"
    more = (
        "\n\ndef test_word_is_one__also_twice(): ...\n"
        "\n\ndef test_word_is_one__ends_at_night(snippet, fails):\n"
        "    fails(test_word_is_one, snippet, 2)\n"
    )
    module.write_text(module.read_text() + more)
    record(house)

    said = re.sub(r"\|+", "|", scopes(build()))

    assert (
        "|word|is one|Tried on|also twice|Ends|at night|Breaks"
        "|but not of another|"
    ) in said


def test_a_scope_without_its_change_is_told_where_it_says_something(
    house, build
):
    module = house / "tests/part/test_one.py"
    text = module.read_text()
    name = "test_word_is_one__but_not_of_another"
    assert name in text
    module.write_text(text.replace(name, "test_word_is_one__but_not"))
    record(house, failures={"edit": f"+{'x' * 99}", "said": "assert"})

    said, _, others = scopes(build()).partition("|Two|")

    assert "Breaks" not in said
    assert "but not of another" in others


def test_the_ledger_leads_to_the_scopes_of_each_chapter(build):
    app = build()

    html = (app.outdir / "evidence/claims.html").read_text()
    page = (app.outdir / "evidence/scopes/part.html").read_text()
    assert 'href="scopes/part.html"' in html
    assert '<a href="../../part/one.html#word-is-one">' in page


def test_a_page_of_scopes_is_not_written_again_for_nothing(build):
    path = build().outdir / "evidence/scopes/part.html"
    before = path.stat().st_mtime_ns

    build()

    assert path.stat().st_mtime_ns == before
