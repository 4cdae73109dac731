"""The sign behind a claim, and the panel that it opens."""

import re

from tests.helpers.evidence import record


def html_of(app, page):
    return (app.outdir / f"{page}.html").read_text()


def signs(app, page):
    """Return the signs of a page."""
    return re.findall(r'<a class="claim-sign.*?</a>', html_of(app, page), re.S)


def panels(app, page):
    """Return the panels of a page."""
    pattern = r'<div class="claim-panel.*?</div>'
    return re.findall(pattern, html_of(app, page), re.S)


def test_a_sign_stands_behind_its_claim_and_the_panel_below(build):
    app = build()
    html = html_of(app, "part/one")

    [sign], [panel] = signs(app, "part/one"), panels(app, "part/one")
    assert f" is one</span>{sign}.</p>\n{panel}" in html
    assert 'aria-label="Passed: word is one"' in sign
    assert 'title="Tested: see what would make this false"' in sign
    assert '<p class="claim-words"><code>word</code> is one</p>' in panel
    assert 'href="#proof-word-is-one"' in sign
    assert 'id="proof-word-is-one"' in panel


def test_panels_stand_in_the_order_of_their_claims(house, build):
    page = house / "docs/part/one.md"
    more = ".claim}, and [one more]{#one-more .claim}."
    page.write_text(page.read_text().replace(".claim}.", more))

    found = panels(build(), "part/one")

    ids = [re.search('id="proof-(.*?)"', each)[1] for each in found]
    assert ids == ["word-is-one", "one-more"]


def test_a_claim_that_a_heading_hides_is_reported_at_its_line(house, build):
    page = house / "docs/part/one.md"
    text = page.read_text().replace("# One\n", "# One\n\n## Word is one\n")
    page.write_text(text)

    warnings = build().warning.getvalue().splitlines()
    [warning] = [line for line in warnings if "'word-is-one'" in line]

    assert "one.md:8: WARNING: claim 'word-is-one' has the address" in warning


def test_a_panel_says_the_result_and_what_makes_the_claim_false(build):
    [panel] = panels(build(), "part/one")

    assert "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64)," in panel
    assert "<summary>… but not of another</summary>" in panel
    assert '<span class="claim-old">-old</span>' in panel
    assert '<span class="claim-new">+new</span>' in panel
    assert "assert old == new" in panel


def test_a_panel_shows_what_the_program_prints_before_and_after(house, build):
    record(
        house,
        failures={
            "edit": "+word = 'two'",
            "said": "assert old == new",
            "output before": "begins\nword is <one>",
            "output after": "begins\nword is <two>",
        },
    )

    html = html_of(build(), "part/one")

    assert (
        "<p>With this line added, the program prints something else, and"
        ' <a href="../evidence/tests/part/one.html#line-5">the test</a>'
        " fails:</p>"
    ) in html
    assert "<pre>begins\n<mark>word is &lt;one&gt;</mark></pre>" in html
    assert "<pre>begins\n<mark>word is &lt;two&gt;</mark></pre>" in html
    assert "assert old == new" not in html


def test_a_panel_says_where_the_program_prints_nothing_more(house, build):
    record(
        house,
        failures={
            "edit": "-word = 'two'",
            "said": "assert old == new",
            "output before": "word",
            "output after": "",
        },
    )

    html = html_of(build(), "part/one")

    assert "<p>Without this line, the program prints" in html
    assert "<p>Before</p>\n<pre>word</pre>" in html
    assert "<p>After</p>\n<p>nothing</p>" in html


def test_a_panel_says_what_the_test_was_given(house, build):
    record(house, failures={"input": "(2, 3)", "said": "assert 2 == 3"})

    [panel] = panels(build(), "part/one")

    assert "<p>Given <code>(2, 3)</code>, <a href=" in panel
    assert '<pre class="claim-said">assert 2 == 3</pre>' in panel


def test_a_panel_says_on_how_much_the_claim_was_tested(house, build):
    module = house / "tests/part/test_one.py"
    module.write_text(
        module.read_text() + "\n\ndef test_word_is_one__also_twice(): ...\n"
    )
    record(house)

    [panel] = panels(build(), "part/one")

    assert '<p class="claim-part">Tried on 2 cases</p>' in panel
    assert "<li>the program of this page</li>\n<li>also twice</li>" in panel


def test_a_panel_names_cases_and_folds_all_changes_but_one(house, build):
    module = house / "tests/part/test_one.py"
    name = "test_word_is_one__but_not"
    module.write_text(module.read_text().replace(f"{name}_of_another", name))
    path = record(house)
    begin, word, end = path.read_text().partition(f'name="{name}"')
    head, case, facts = begin.rpartition("<testcase")
    one, close, rest = f"{case}{facts}{word}{end}".partition("</testcase>")
    cases = [
        one.replace(f'{name}"', f'{name}[{new}]"').replace("+new", f"+{new}")
        for new in ("two words", "no_grad")
    ]
    path.write_text(close.join([head + cases[0], cases[1], rest]))

    html = html_of(build(), "part/one")

    names = "two words or <code>no_grad</code>"
    assert f"<summary>… but not {names}</summary>" in html
    shown, folded = html.split(
        "<summary>1 more change does the same</summary>"
    )
    assert "+two words" in shown
    assert "+no_grad" in folded.partition("</details>")[0]


def test_a_panel_links_to_its_row_and_to_its_tests(build):
    app = build()

    [panel] = panels(app, "part/one")
    links = re.findall(r'href="\.\./(.*?)#(.*?)"', panel)
    assert len(links) == 3
    for page, place in links:
        assert f'id="{place}"' in (app.outdir / page).read_text()


def test_a_panel_tells_a_limit_from_a_counter_example(house, build):
    module = house / "tests/part/test_one.py"
    limit = "def test_word_is_one__ends_at_night(snippet, fails):\n"
    call = "    fails(test_word_is_one, snippet, 2)\n"
    module.write_text(f"{module.read_text()}\n\n{limit}{call}")
    record(house)

    [panel] = panels(build(), "part/one")

    breaks, ends = panel.split("Where it ends")
    assert "<summary>… but not of another</summary>" in breaks
    assert "<summary>at night</summary>" in ends


def test_a_claim_whose_device_is_simulated_has_a_sign_of_its_own(house, build):
    module = house / "tests/part/test_one.py"
    mark = 'import pytest\n\n@pytest.mark.simulates("a GPU")\n'
    module.write_text(f"{mark}{module.read_text()}")
    record(house)
    app = build()

    [sign], [panel] = signs(app, "part/one"), panels(app, "part/one")
    assert "claim-simulated" in sign
    assert "The test simulates a GPU: nothing here has run on one." in panel


def test_the_panel_of_a_claim_in_a_table_stands_below_the_table(house, build):
    page = house / "docs/part/one.md"
    text = page.read_text().replace(
        "[`word` is", "| what |\n|---|\n| [`word` is"
    )
    page.write_text(text.replace(".claim}.", ".claim}. |"))
    app = build()

    [panel] = panels(app, "part/one")
    assert f"</table>\n{panel}" in html_of(app, "part/one")


def test_a_claim_of_a_recipe_is_marked_at_the_end_of_its_paragraph(build):
    app = build()

    [sign] = signs(app, "gallery/three")
    [panel] = panels(app, "gallery/three")
    html = html_of(app, "gallery/three")
    assert f"One line is drawn.{sign}</p>\n{panel}" in html


def test_a_panel_says_the_date_of_its_own_results(house, build):
    record(house, date="2026-01-02", device="GPU 9")

    [panel] = panels(build(), "part/one")
    assert "on GPU 9: torch 2.13.0 (x86_64), 2026-01-02<" in panel


def test_a_claim_that_did_not_run_names_no_device(house, build):
    record(house, test_word_is_one="skipped for cuda")

    [panel] = panels(build(), "part/one")
    assert "<strong>○ Not run</strong>: torch 2.13.0 (x86_64), " in panel


def test_a_failed_claim_looks_failed(house, build):
    record(house, test_word_is_one="failed")

    [sign] = signs(build(), "part/one")
    assert "claim-failed" in sign
    assert 'aria-label="Failed: word is one"' in sign
