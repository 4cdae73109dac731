"""Claims of a page, repeated at its end."""

import re

from tests.helpers.evidence import record

RECAP = "\n```{recap} word-is-one\n```\n"


def test_a_recap_repeats_words_and_result_and_leads_to_the_claim(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + RECAP)

    app = build()

    html = (app.outdir / "part/one.html").read_text()
    [item] = re.findall('<ul class="recap.*?</ul>', html, re.S)
    assert 'href="#word-is-one"' in item
    assert re.sub("<.*?>", "", item).split() == ["word", "is", "one✓"]
    assert html.count('id="word-is-one"') == 1
    assert not app.warning.getvalue()


def test_a_recap_says_where_a_claim_ends(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + RECAP)
    module = house / "tests/part/test_one.py"
    limit = "def test_word_is_one__ends_at_night(snippet, fails):\n"
    call = "    fails(test_word_is_one, snippet, 2)\n"
    module.write_text(f"{module.read_text()}\n\n{limit}{call}")
    record(house)

    html = (build().outdir / "part/one.html").read_text()

    [item] = re.findall('<ul class="recap.*?</ul>', html, re.S)
    assert '<small class="claim-ends">Where it ends: at night.</small>' in item


def test_a_recap_is_a_list_in_the_notebook(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + RECAP)

    build()

    notebook = (house / "docs/code/part/one.ipynb").read_text()
    assert "- `word` is one" in notebook


def test_a_recap_of_another_page_leads_there_and_names_it(house, build):
    page = house / "docs/part/two.md"
    page.write_text(
        page.read_text() + RECAP.replace("word", "part/one#word", 1)
    )

    app = build()

    html = (app.outdir / "part/two.html").read_text()
    [item] = re.findall('<ul class="recap.*?</ul>', html, re.S)
    assert 'href="one.html#word-is-one"' in item
    assert re.sub("<.*?>", "", item).split() == ["word", "is", "one✓", "One"]
    assert not app.warning.getvalue()
    notebook = (house / "docs/code/part/two.ipynb").read_text()
    assert "- `word` is one" in notebook
