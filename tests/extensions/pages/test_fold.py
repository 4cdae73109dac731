"""What only some readers need, behind its title."""

import re


def test_a_fold_opens_with_its_title_and_keeps_its_claims(house, build):
    page = house / "docs/part/one.md"
    text = page.read_text()
    claim = "[`word` is one]{#word-is-one .claim}"
    assert claim in text
    fold = f":::{{fold}} What `word` is\nLook: {claim}.\n:::\n"
    page.write_text(f"{text.replace(claim, 'It is')}\n{fold}")
    app = build()
    html = (app.outdir / "part/one.html").read_text()
    [said] = re.findall(r'<details class="fold">.*?</p>', html, re.S)

    assert not app.warning.getvalue()
    assert "<summary>What <code>word</code> is</summary>" in said
    assert 'id="word-is-one"' in said


def test_a_fold_without_words_is_reported(house, build):
    page = house / "docs/part/one.md"
    page.write_text(f"{page.read_text()}\n:::{{fold}} Nothing\n:::\n")

    assert "part/one.md:" in build().warning.getvalue()
