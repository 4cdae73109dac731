"""The source of the tests, as pages."""

import re


def test_a_module_of_tests_is_a_page_with_a_place_for_each_test(site):
    page = (site.outdir / "evidence/tests/part/one.html").read_text()

    assert "tests/part/test_one.py" in page
    assert re.findall(r'<div class="proof-part"(.*?) data', page) == [
        ' id="line-1"',
        ' id="line-5"',
    ]
    assert 'href="../../../part/one.html"' in page


def test_a_test_leads_back_to_the_words_of_its_claim(site):
    page = (site.outdir / "evidence/tests/part/one.html").read_text()

    before, after = page.split(
        '<p class="proof-claim"><a href="../../../part/one.html#word-is-one">'
        "<code>word</code> is one</a></p>"
    )
    assert 'id="line-1" data-of="test_word_is_one"' in before
    code = re.sub("<.*?>", "", after.partition("<pre>")[2])
    assert code.startswith("def test_word_is_one(")


def test_a_page_of_tests_is_written_again_if_a_claim_is_said_otherwise(
    house, build
):
    build()
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("is one]", "is just one]"))

    app = build()

    text = (app.outdir / "evidence/tests/part/one.html").read_text()
    assert "<code>word</code> is just one</a>" in text


def test_breadcrumbs_lead_up_from_pages_that_stand_in_no_list(site):
    for name, above in [
        ("tests/part/one", "../../claims.html"),
        ("claims/part", "../claims.html"),
    ]:
        page = (site.outdir / f"evidence/{name}.html").read_text()
        [crumbs] = re.findall(r'<nav class="breadcrumbs.*?</nav>', page, re.S)
        assert f'<a href="{above}">' in crumbs
        assert 'aria-current="page"' in crumbs
