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


def test_the_ledger_leads_to_the_scopes_of_each_chapter(site):
    html = (site.outdir / "evidence/claims.html").read_text()
    page = (site.outdir / "evidence/scopes/part.html").read_text()
    assert 'href="scopes/part.html"' in html
    assert '<a href="../../part/one.html#word-is-one">' in page


def test_a_page_of_scopes_is_not_written_again_for_nothing(build):
    path = build().outdir / "evidence/scopes/part.html"
    before = path.stat().st_mtime_ns

    build()

    assert path.stat().st_mtime_ns == before


def test_a_long_list_is_told_in_few_words_and_folded_in_the_panel(
    house, build
):
    module = house / "tests/part/test_one.py"
    name = "test_word_is_one__also_in"
    module.write_text(f"{module.read_text()}\n\ndef {name}(head): ...\n")
    path = record(house)
    text = path.read_text()
    [case] = re.findall(f'<testcase [^>]*name="{name}".*?</testcase>', text)
    cases = [
        case.replace(f'{name}"', f'{name}[the {each} head]"').replace(
            "<properties>",
            "<properties><property name='parameters'"
            f" value='head=the {each} head' />",
        )
        for each in ("first small", "second small", "third", "fourth", "last")
    ]
    path.write_text(text.replace(case, "".join(cases)))

    app = build()

    few = (
        "also in five heads, among them the first small head and the second"
        " small head"
    )
    whole = (
        "also in the first small head, the second small head, the third head,"
        " the fourth head and the last head"
    )
    panel = (app.outdir / "part/one.html").read_text()
    assert f"<details><summary>{few}</summary>{whole}</details>" in panel
    assert whole in (app.outdir / "evidence/scopes/part.html").read_text()


def test_a_chapter_of_the_ledger_lists_its_pages(site):
    html = (site.outdir / "evidence/claims/part.html").read_text()

    assert '<a href="#page-part-one">One</a> <small>1 claim</small>' in html
    assert 'id="page-part-one"' in html
