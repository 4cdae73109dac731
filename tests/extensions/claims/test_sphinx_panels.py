"""The sign behind a claim, and the panel that it opens."""

import re

import pytest

from tests.helpers.builds import built
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


def test_a_sign_stands_behind_its_claim_and_the_panel_below(site):
    html = html_of(site, "part/one")

    [sign], [panel] = signs(site, "part/one"), panels(site, "part/one")
    assert f" is one</span>{sign}.</p>\n{panel}" in html
    assert 'aria-label="Passed: word is one"' in sign
    assert 'title="Tested: see what would make this false"' in sign
    assert '<p class="claim-words"><code>word</code> is one</p>' in panel
    assert 'href="#proof-word-is-one"' in sign
    assert 'id="proof-word-is-one"' in panel


@pytest.fixture(scope="module")
def rewritten(new_house):
    """A page with one claim more, and a page whose claim is in a table."""
    house = new_house()
    one, two = house / "docs/part/one.md", house / "docs/part/two.md"
    more = ".claim}, and [one more]{#one-more .claim}."
    one.write_text(one.read_text().replace(".claim}.", more))
    text = two.read_text().replace(
        "[`word` is", "| what | why |\n|---|---|\n| [`word` is"
    )
    two.write_text(text.replace(".claim}.", ".claim}. | so |\n| more | |"))
    return built(house)


def test_panels_stand_in_the_order_of_their_claims(rewritten):
    found = panels(rewritten, "part/one")

    ids = [re.search('id="proof-(.*?)"', each)[1] for each in found]
    assert ids == ["word-is-one", "one-more"]


def test_a_claim_that_a_heading_hides_is_reported_at_its_line(house, build):
    page = house / "docs/part/one.md"
    text = page.read_text().replace("# One\n", "# One\n\n## Word is one\n")
    page.write_text(text)

    warnings = build().warning.getvalue().splitlines()
    [warning] = [line for line in warnings if "'word-is-one'" in line]

    assert "one.md:8: WARNING: claim 'word-is-one' has the address" in warning


def test_a_panel_says_the_result_and_what_makes_the_claim_false(site):
    [panel] = panels(site, "part/one")

    assert "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64)," in panel
    assert "<summary>Another word is not one.</summary>" in panel
    assert '<span class="claim-old">-old</span>' in panel
    assert '<span class="claim-new">+new</span>' in panel
    assert "assert old == new" in panel


@pytest.fixture(scope="module")
def explained(new_house):
    """Counter-examples that each note something else of how they fail."""
    house = new_house()
    record(
        house,
        failures_of={
            "test_word_is_one__but_not_of_another": {
                "edit": "+word = 'two'",
                "said": "assert old == new",
                "output before": "begins\nword is <one>",
                "output after": "begins\nword is <two>",
            },
            "test_word_is_two__but_not_of_another": {
                "edit": "-word = 'two'",
                "said": "assert old == new",
                "output before": "word",
                "output after": "",
            },
            "test_one_line_is_drawn__but_not_of_two_columns": {
                "input": "(2, 3)",
                "said": "assert 2 == 3",
            },
        },
    )
    return built(house)


def test_a_panel_shows_what_the_program_prints_before_and_after(explained):
    html = html_of(explained, "part/one")

    assert (
        "<p>With this line added, the program prints something else, and"
        ' <a href="../evidence/tests/part/one.html#line-5">the test</a>'
        " fails:</p>"
    ) in html
    assert "<pre>begins\n<mark>word is &lt;one&gt;</mark></pre>" in html
    assert "<pre>begins\n<mark>word is &lt;two&gt;</mark></pre>" in html
    assert "assert old == new" not in html


def test_a_panel_says_where_the_program_prints_nothing_more(explained):
    html = html_of(explained, "part/two")

    assert "<p>Without this line, the program prints" in html
    assert "<p>Before</p>\n<pre>word</pre>" in html
    assert "<p>After</p>\n<p>nothing</p>" in html


def test_a_panel_says_what_the_test_was_given(explained):
    [panel] = panels(explained, "gallery/three")

    assert "<p>Given <code>(2, 3)</code>, <a href=" in panel
    assert '<pre class="claim-said">assert 2 == 3</pre>' in panel


@pytest.fixture(scope="module")
def tested_otherwise(new_house):
    """A claim with more tests, and one whose test simulates, on a GPU."""
    house = new_house()
    one = house / "tests/part/test_one.py"
    one.write_text(
        f"{one.read_text()}\n\n"
        "def test_word_is_one__also_twice(): ...\n\n\n"
        "def test_word_is_one__ends_at_night(snippet, fails):\n"
        '    """At night, it is two."""\n'
        "    fails(test_word_is_one, snippet, 2)\n"
    )
    two = house / "tests/part/test_two.py"
    mark = 'import pytest\n\n@pytest.mark.simulates("a GPU")\n'
    two.write_text(f"{mark}{two.read_text()}")
    record(house, date="2026-01-02", device="GPU 9")
    return built(house)


def test_a_panel_says_on_how_much_the_claim_was_tested(tested_otherwise):
    [panel] = panels(tested_otherwise, "part/one")

    assert '<p class="claim-part">Tried on 2 cases</p>' in panel
    assert "<li>the program of this page</li>\n<li>also twice</li>" in panel


def test_a_panel_names_cases_and_folds_all_changes_but_one(house, build):
    name = "test_word_is_one__but_not_of_another"
    path = record(house)
    begin, word, end = path.read_text().partition(f'name="{name}"')
    head, case, facts = begin.rpartition("<testcase")
    one, close, rest = f"{case}{facts}{word}{end}".partition("</testcase>")
    cases = [
        one.replace(f'{name}"', f'{name}[{case}]"').replace("+new", f"+{new}")
        for case, new in (("two", "2"), ("none at all", "0"))
    ]
    path.write_text(close.join([head + cases[0], cases[1], rest]))

    html = html_of(build(), "part/one")

    shown, folded = html.split(
        "<summary>1 more change does the same</summary>"
    )
    assert "+2" in shown
    folded = folded.partition("</details>")[0]
    assert "<p>none at all</p>" in folded
    assert "+0" in folded


def test_a_panel_folds_a_long_list(house, build):
    module = house / "tests/part/test_one.py"
    name = "test_word_is_one__also_in"
    module.write_text(f"{module.read_text()}\n\ndef {name}(head): ...\n")
    path = record(house)
    text = path.read_text()
    [case] = re.findall(f'<testcase [^>]*name="{name}".*?</testcase>', text)
    heads = [f"head number {number}" for number in range(9)]
    cases = [case.replace(f'{name}"', f'{name}[{each}]"') for each in heads]
    path.write_text(text.replace(case, "".join(cases)))

    shown = f"also in: {', '.join(heads[:6])}, …"
    rest = ", ".join(heads[6:])
    assert f"<summary>{shown}</summary>{rest}</details>" in html_of(
        build(), "part/one"
    )


def test_a_panel_links_to_its_row_and_to_its_tests(site):
    [panel] = panels(site, "part/one")
    links = re.findall(r'href="\.\./(.*?)#(.*?)"', panel)
    assert len(links) == 3
    for page, place in links:
        assert f'id="{place}"' in (site.outdir / page).read_text()


def test_a_panel_tells_a_limit_from_a_counter_example(tested_otherwise):
    [panel] = panels(tested_otherwise, "part/one")

    breaks, ends = panel.split("Where it ends")
    assert "<summary>Another word is not one.</summary>" in breaks
    assert "<summary>At night, it is two.</summary>" in ends


def test_a_claim_whose_device_is_simulated_has_a_sign_of_its_own(
    tested_otherwise,
):
    [sign] = signs(tested_otherwise, "part/two")
    [panel] = panels(tested_otherwise, "part/two")
    assert "claim-simulated" in sign
    assert "The test simulates a GPU: nothing here has run on one." in panel


def test_the_panel_of_a_claim_in_a_table_stands_below_its_row(rewritten):
    [panel] = panels(rewritten, "part/two")
    html = html_of(rewritten, "part/two")
    row = f'<tr class="claim-row"><td colspan="2">{panel}</td></tr>'
    assert re.search(f"so.*</tr>\n{re.escape(row)}<tr.*more", html, re.S)


def test_a_claim_of_a_recipe_is_marked_at_the_end_of_its_paragraph(site):
    [sign] = signs(site, "gallery/three")
    [panel] = panels(site, "gallery/three")
    html = html_of(site, "gallery/three")
    assert f"One line is drawn.{sign}</p>\n{panel}" in html


def test_a_panel_says_the_date_of_its_own_results(tested_otherwise):
    [panel] = panels(tested_otherwise, "part/one")
    assert "on GPU 9: torch 2.13.0 (x86_64), 2026-01-02<" in panel


@pytest.fixture(scope="module")
def unproven(new_house):
    """A claim that failed, one that lacks a library, one that lacks a GPU."""
    house = new_house()
    lacking = "skipped for scikit-learn"
    record(
        house,
        test_word_is_one="failed",
        test_word_is_two=lacking,
        test_one_line_is_drawn="skipped for cuda",
    )
    other = {"torch": "2.6.0"}
    record(house, "evidence/other", other, test_word_is_two=lacking)
    return built(house)


def test_a_claim_that_did_not_run_names_no_device(unproven):
    [panel] = panels(unproven, "gallery/three")
    said = "<strong>○ Not run</strong> (needs a GPU): torch 2.13.0 (x86_64), "
    assert said in panel


def test_a_claim_that_did_not_run_says_which_library_it_needs(unproven):
    [panel], [sign] = panels(unproven, "part/two"), signs(unproven, "part/two")
    said = "<strong>○ Not run</strong> (needs scikit-learn): torch 2.13.0"
    assert said in panel
    assert "○ not run (needs scikit-learn): torch 2.6.0" in panel
    assert "GPU" not in panel + sign
    assert 'title="Not run: needs scikit-learn"' in sign


def test_a_failed_claim_looks_failed(unproven):
    [sign] = signs(unproven, "part/one")
    assert "claim-failed" in sign
    assert 'aria-label="Failed: word is one"' in sign
