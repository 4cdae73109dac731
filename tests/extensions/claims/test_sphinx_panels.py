"""The sign behind a claim, the panel that it opens, and the tally of both."""

import re

import pytest

from tests.helpers.evidence import record


def html_of(app, page):
    return (app.outdir / f"{page}.html").read_text()


def sign_in(html):
    """Return the one sign of a page."""
    [sign] = re.findall(r'<a class="claim-sign.*?</a>', html, re.S)
    return sign


def panel_in(html):
    """Return the one panel of a page."""
    [panel] = re.findall(r'<div class="claim-panel.*?</div>', html, re.S)
    return panel


def test_a_sign_stands_behind_its_claim_and_the_panel_below(site):
    html = html_of(site, "part/one")
    sign, panel = sign_in(html), panel_in(html)

    assert f" is one</span>{sign}.</p>\n{panel}" in html
    assert 'aria-label="Passed: word is one"' in sign
    assert 'title="Tested: see what would make this false"' in sign
    assert '<p class="claim-words"><code>word</code> is one</p>' in panel
    assert 'href="#proof-word-is-one"' in sign
    assert 'id="proof-word-is-one"' in panel
    links = re.findall(r'href="\.\./(.*?)#(.*?)"', panel)
    assert len(links) == 3  # to its row and to its tests
    for page, place in links:
        assert f'id="{place}"' in (site.outdir / page).read_text()


def test_a_claim_of_a_recipe_is_marked_at_the_end_of_its_paragraph(site):
    html = html_of(site, "gallery/three")

    said = f"One line is drawn.{sign_in(html)}</p>\n{panel_in(html)}"
    assert said in html


def test_the_panel_of_a_claim_in_a_table_stands_below_its_row(varied):
    html = varied.html("part/two")

    row = f'<tr class="claim-row"><td colspan="2">{panel_in(html)}</td></tr>'
    assert re.search(f"so.*</tr>\n{re.escape(row)}", html, re.S)


def test_panels_keep_their_order_and_a_heading_hides_none(house, build):
    page = house / "docs/part/one.md"
    more = "## Hidden\n\n[One more]{#one-more .claim}, [a]{#hidden .claim}.\n"
    page.write_text(f"{page.read_text()}\n{more}")

    app = build()

    ids = re.findall(r'id="proof-(.*?)"', html_of(app, "part/one"))
    assert ids == ["word-is-one", "one-more"]
    warnings = app.warning.getvalue()
    assert "one.md:13: WARNING: claim 'hidden' has the address of" in warnings


def test_a_panel_says_the_result_and_what_makes_the_claim_false(site):
    panel = panel_in(html_of(site, "part/one"))

    assert "<strong>✓ Passed</strong> on CPU: torch 2.13.0 (x86_64)," in panel
    assert "<summary>Another word is not one.</summary>" in panel
    assert '<span class="claim-old">-old</span>' in panel
    assert '<span class="claim-new">+new</span>' in panel
    assert "assert old == new" in panel


SHOWN = {
    "part/one": [
        "<p>With this line added, the program prints something else, and"
        ' <a href="../evidence/tests/part/one.html#line-5">the test</a>'
        " fails:</p>",
        "<pre>begins\n<mark>word is &lt;one&gt;</mark></pre>",
        "<pre>begins\n<mark>word is &lt;two&gt;</mark></pre>",
    ],
    "part/two": [
        "<p>Without this line, the program prints",
        "<p>Before</p>\n<pre><mark>word</mark></pre>",
        "<p>After</p>\n<p>nothing</p>",
    ],
    "gallery/three": [
        "<p>Given <code>(2, 3)</code>, <a href=",
        '<pre class="claim-said">assert 2 == 3</pre>',
    ],
}


def test_a_panel_shows_what_comes_of_an_edit_and_folds_all_others(
    house, build
):
    but = "test_word_is_one__but_not_of_another"
    path = record(
        house,
        failures_of={
            but: {
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
    path /= "part/one.xml"
    text = path.read_text()
    [one] = re.findall(f'(?s)<testcase name="{but}".*?</testcase>', text)
    more = one.replace(f'{but}"', f'{but}[none at all]"')
    path.write_text(text.replace(one, one + more.replace("+word", "+none")))

    app = build()

    for page, parts in SHOWN.items():
        html = html_of(app, page)
        assert [each for each in parts if each not in html] == []
        assert "assert old == new" not in html
    html = html_of(app, "part/one")
    shown, _, folded = html.partition("<summary>1 more change does the same<")
    assert "+word" in shown
    assert "<p>none at all</p>" in folded
    assert "+none" in folded


def test_a_panel_says_how_far_the_claim_reaches(varied):
    panel = panel_in(varied.html("part/one"))

    assert '<p class="claim-part">Tried on 2 cases</p>' in panel
    assert "<li>the page's program</li>\n<li>also twice</li>" in panel
    breaks, ends = panel.split("Where it ends")
    assert "<summary>Another word is not one.</summary>" in breaks
    assert "<summary>At night, it is two.</summary>" in ends
    assert "True since torch 2.9; before, the test fails: it was two." in panel
    assert "Needs <code>torch.x</code>, which is there since torch" in panel


def test_a_panel_names_each_run_by_what_it_says(varied):
    html = varied.html("part/two")
    [runs] = re.findall(r'<ul class="claim-runs">(.*?)</ul>', html, re.S)

    assert re.findall(r"<li>(.*?)</li>", runs) == [
        "<strong>✓ Passed</strong> on GPU 9: torch 2.13.0 (x86_64),"
        " 2026-01-02",
        "✓ torch 1.13.1 on CPU",
        "✗ failed torch 2.6.0 on CPU",
        "✓ torch 2.9.1 on CPU",
        "✓ torch 2.13.0 on GPU &lt;9&gt;",
    ]
    assert "<li>✓ torch 2.5.1 on CPU</li>" in varied.html("part/one")


def test_a_claim_that_did_not_run_says_what_it_needs(waiting):
    html = waiting.html("gallery/three")
    panel = panel_in(html)

    needs = "lmdb and scikit-learn"
    said = f"<strong>○ Not run</strong> (needs {needs}): torch 2.13.0"
    assert said in panel
    assert f"○ not run (needs {needs}): torch 2.6.0" in panel
    assert f'title="Not run: needs {needs}"' in sign_in(html)


@pytest.mark.parametrize(
    ("name", "verdict", "said"),
    [("varied", "simulated", "Simulated"), ("waiting", "failed", "Failed")],
)
def test_a_claim_that_did_not_just_pass_has_a_sign_of_its_own(
    request, name, verdict, said
):
    html = request.getfixturevalue(name).html("part/two")

    assert f"claim-{verdict}" in sign_in(html)
    assert f'aria-label="{said}: word is two"' in sign_in(html)
    simulates = "The test simulates a GPU: nothing here has run on one."
    assert (simulates in panel_in(html)) == (name == "varied")


# -- The tally ---------------------------------------------------------------


def tally_of(site, name):
    """Return the line of a page, and what it says without its links."""
    [line] = re.findall(
        r'<p class="page-tally">(.*?)</p>', site.html(name), re.S
    )
    return line, re.sub("<.*?>", "", line)


HINT = "click a sign to see why"


def test_a_tally_says_on_what_the_claims_of_a_page_were_tested(varied):
    line, said = tally_of(varied, "part/one")

    # The torch of a part of the claims, and an old one, are not counted.
    assert said == (
        "✓ 1 statement tested on torch 2.13.0, 2026-01-02, and on 2 other"
        f" versions · § 1 cited · {HINT}"
    )
    assert 'href="../evidence/claims/part.html#part-one-word-is-one"' in line
    assert 'href="../evidence/claims.html#cited"' in line
    assert 'title="Show them in the ledger"' in line


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("part/one", "○ 1 needs a GPU"),
        ("part/two", "✗ 1 fails"),
        ("gallery/three", "○ 1 needs lmdb and scikit-learn"),
    ],
)
def test_a_tally_says_what_is_not_proven(waiting, name, said):
    assert tally_of(waiting, name)[1] == f"{said} · {HINT}"


def test_a_tally_names_another_torch_where_this_one_lacks_a_library(
    house, build
):
    record(house, test_one_line_is_drawn="skipped for torchvision")
    for torch in ("2.14.0", "2.15.0"):
        place, date = f"evidence/{torch}", f"2026-01-{torch[2:4]}"
        record(house, place, {"torch": torch}, date=date)

    said = "tested on torch 2.15.0, 2026-01-15, and on 1 other version"
    assert said in html_of(build(), "gallery/three")


# -- Claims of two pages with one name ---------------------------------------


# MyST uses an attribute that Sphinx calls deprecated.
@pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")
def test_a_link_finds_the_claim_of_the_page_that_it_names(house, build):
    one, two = house / "docs/part/one.md", house / "docs/part/two.md"
    for page in (one, two):
        page.write_text(f"{page.read_text()}\n[Same]{{#same .claim}}.\n")
    index = house / "docs/index.md"
    links = "[a](part/one.md#same) [b](part/two.md#same)"
    index.write_text(f"{index.read_text()}\n{links}\n")
    app = build()

    html = html_of(app, "index")
    assert 'href="part/one.html#same"' in html
    assert 'href="part/two.html#same"' in html
    assert "local id" not in app.warning.getvalue()

    # Also once one of them is read again.
    for page in (one, index):
        page.write_text(f"{page.read_text()}\nMore.\n")
    assert "local id" not in build().warning.getvalue()
