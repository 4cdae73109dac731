"""The sign behind a claim."""

import re

from tests.extensions.conftest import record


def marks(app, page):
    """Return the signs of a page."""
    html = (app.outdir / f"{page}.html").read_text()
    pattern = r'<span class="claim-proof.*?</span></span></span>'
    return re.findall(pattern, html, re.S)


def test_a_mark_stands_behind_its_claim_and_says_the_result(build):
    app = build()
    html = (app.outdir / "part/one.html").read_text()

    [mark] = marks(app, "part/one")
    assert f" is one</span>{mark}." in html
    assert 'aria-label="Proof: passed"' in mark
    assert "Passed on CPU: torch 2.13.0 (x86_64), 2026-01-31<" in mark


def test_a_mark_links_to_its_row_and_to_its_test(build):
    app = build()

    [mark] = marks(app, "part/one")
    row, test = re.findall(r'href="\.\./(.*?)#(.*?)"', mark)[:2]
    assert f'id="{row[1]}"' in (app.outdir / row[0]).read_text()
    assert f'id="{test[1]}"' in (app.outdir / test[0]).read_text()


def test_a_claim_of_a_recipe_is_marked_at_the_end_of_its_paragraph(build):
    app = build()
    html = (app.outdir / "gallery/three.html").read_text()

    [mark] = marks(app, "gallery/three")
    assert f"One line is drawn.{mark}</p>" in html


def test_a_mark_says_the_date_of_its_own_results(house, build):
    record(house, date="2026-01-02", device="GPU 9")

    [mark] = marks(build(), "part/one")
    assert "Passed on GPU 9: torch 2.13.0 (x86_64), 2026-01-02<" in mark


def test_a_claim_that_did_not_run_names_no_device(house, build):
    record(house, test_word_is_one="skipped for cuda")

    [mark] = marks(build(), "part/one")
    assert "Not run: torch 2.13.0 (x86_64), 2026-01-31<" in mark


def test_a_failed_claim_looks_failed(house, build):
    record(house, test_word_is_one="failed")

    [mark] = marks(build(), "part/one")
    assert "claim-failed" in mark
    assert 'aria-label="Proof: failed"' in mark
