"""The source of the tests, as pages."""


def test_a_module_of_tests_is_a_page_with_its_lines(build):
    app = build()

    page = (app.outdir / "evidence/tests/part/one.html").read_text()

    assert "tests/part/test_one.py" in page
    assert '<span id="line-4">' in page
    assert 'href="../../../part/one.html"' in page
