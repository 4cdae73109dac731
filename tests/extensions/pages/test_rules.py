"""What to remember of all pages, on one."""

import re

import pytest

PART = """# Part

- What is one?
  A `word`: [One](one.md).

```{toctree}
two
one
```
"""
# MyST asks this of Sphinx when it resolves a link to a page.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")
RECAP = "\n```{recap} word-is-one\n```\n"


@pytest.fixture
def site(house):
    """A chapter whose page has something to remember, and what shows it."""
    docs = house / "docs"
    one = docs / "part/one.md"
    one.write_text(one.read_text() + RECAP)
    (docs / "part/index.md").write_text(PART)
    (docs / "rules.md").write_text(
        "# Rules\n\n```{rules}\n```\n\n"
        "# Answers\n\n```{chapter-answers}\n```\n"
    )
    index = docs / "index.md"
    index.write_text(index.read_text().replace("part/*", "part/index\nrules"))
    return docs


def text_of(app):
    """Return the page of the rules, without what Furo puts around it."""
    html = (app.outdir / "rules.html").read_text()
    return html[html.index('id="rules"') : html.index('class="clearer"')]


def test_each_rule_leads_to_its_place_with_its_result(site, build):
    html = text_of(build())

    assert 'href="part/one.html#word-is-one"' in html
    assert '<a class="reference internal" href="part/one.html">One</a>' in html
    [rules] = re.findall('<ul class="recap.*?</ul>', html, re.S)
    assert re.sub("<.*?>", "", rules).split() == ["word", "is", "one✓"]


def test_each_answer_leads_to_its_page(site, build):
    html = text_of(build())

    answers = html[html.index('id="answers"') :]
    [item] = re.findall("<li>(.*?)</li>", answers, re.S)
    assert re.sub("<.*?>", "", item).strip() == "A word: One"


def test_a_changed_rule_or_answer_renews_the_page(site, build):
    build()
    one = site / "part/one.md"
    one.write_text(one.read_text().replace(RECAP, ""))
    (site / "part/index.md").write_text(PART.replace("A `word`", "Words"))

    html = text_of(build())

    assert "recap" not in html
    assert "Words: " in html
