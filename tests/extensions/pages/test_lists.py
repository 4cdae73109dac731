"""What a page says of itself: at its head, and where others list it."""

import re

import pytest

from tests.helpers.builds import built

# MyST asks this of Sphinx when it resolves a link to a page.
pytestmark = pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")

FRONT = """
```{chapters}
```

```{recipes}
gallery/three
```
"""
RULES = """# Rules

```{rules}
```

# Answers

```{chapter-answers}
```
"""
CHAPTER = """# A part

What of `word`?
More.

- What is one?
  A `word`: [One](one.md).
- And two?
  Another: [Two](two.md).

```{course}
```

```{chapters}
```

```{toctree}
two
one
```
"""
RECAP = "\n```{recap} word-is-one\n```\n"


def write(house):
    """Let pages of a house list all there is."""
    (house / "docs/rules.md").write_text(RULES)
    (house / "docs/part/index.md").write_text(CHAPTER)
    page = house / "docs/index.md"
    text = page.read_text().replace(
        ":glob:\n\npart/*\n", "\npart/index\nrules\n"
    )
    page.write_text(text + FRONT)
    page = house / "docs/part/one.md"
    opened = page.read_text().replace(
        "# One\n", "# One\n\n`One`\nis.\nMore.\n"
    )
    page.write_text(opened + RECAP)
    recipe = house / "gallery/three.py"
    opened = "=====\n\nSee how\nit goes. More.\n"
    recipe.write_text(recipe.read_text().replace("=====\n", opened))


@pytest.fixture(scope="module")
def listed(new_house):
    """The site with these pages."""
    house = new_house()
    write(house)
    return built(house)


def items(app, kind, page="index"):
    """Return what stands in the list of a kind, without its markup."""
    html = (app.outdir / f"{page}.html").read_text()
    pattern = rf'<{kind} class="page-list">(.*?)</{kind}>'
    [found] = re.findall(pattern, html, re.S)
    return re.findall(r"<li.*?>(.*?)</li>", found, re.S)


def head(app, name):
    """Return the line at the head of a page."""
    html = (app.outdir / f"{name}.html").read_text()
    [line] = re.findall('<p class="page-head">(.*?)</p>', html, re.S)
    return re.sub("<.*?>", "", line)


def rules_of(app):
    """Return the rules and the answers, without what stands around them."""
    html = (app.outdir / "rules.html").read_text()
    html = html[html.index('id="rules"') : html.index('class="clearer"')]
    return html.split('id="answers"')


def test_chapters_list_each_other_in_the_order_of_the_contents(listed):
    part, recipes = items(listed, "ul")
    [other] = items(listed, "ul", "part/index")

    link = '<a href="part/index.html">A part</a>'
    assert part == f"{link} What of <code>word</code>?"
    assert recipes.startswith('<a href="gallery/index.html">')
    assert 'href="../gallery/index.html"' in other
    assert not listed.warning.getvalue()


def test_a_course_says_how_long_its_pages_take_and_each_its_place(listed):
    first, second = items(listed, "ol", "part/index")

    assert first.startswith('<a href="two.html">Two</a> ')
    link, said = '<a href="one.html">One</a>', "<code>One</code> is."
    assert second == f"{link} <small>1 min</small> {said}"
    html = (listed.outdir / "part/index.html").read_text()
    assert "Together they take 2 minutes to read." in html
    place = "Page 1 of 2 of the course · 1 min to read · needs "
    assert head(listed, "part/two").startswith(place)
    assert head(listed, "part/one").startswith("Page 2 of 2 of the course")
    assert "the course" not in head(listed, "gallery/three")


def test_a_recipe_shows_its_name_its_first_sentence_and_its_picture(listed):
    html = (listed.outdir / "index.html").read_text()
    card = html.partition("recipe-cards")[2]

    assert 'href="gallery/three.html">Three</a>' in card
    assert "<p>See how it goes.</p>" in card
    assert 'class="only-light"' in card
    assert 'class="only-dark"' in card
    assert "sphx_glr_three_001_dark.svg" in card


def test_each_rule_and_each_answer_lead_to_their_place(listed):
    rules, answers = rules_of(listed)

    assert 'href="part/one.html#word-is-one"' in rules
    assert 'class="reference internal" href="part/one.html">One</a>' in rules
    [found] = re.findall('<ul class="recap.*?</ul>', rules, re.S)
    assert re.sub("<.*?>", "", found).split() == ["word", "is", "one✓"]
    found = re.findall("<li>(.*?)</li>", answers, re.S)
    said = [re.sub("<.*?>", "", each).strip() for each in found]
    assert said == ["A word: One", "Another: Two"]


def test_what_changes_on_another_page_renews_a_list(house, build):
    write(house)
    build()
    page = house / "docs/part/one.md"
    long = f"# One\n\n{'word ' * 500}\n"
    text = page.read_text().replace("# One\n", long)
    page.write_text(text.replace(RECAP, ""))
    app = build()

    assert "<small>3 min</small>" in items(app, "ol", "part/index")[1]
    assert 'class="recap' not in rules_of(app)[0]

    index = house / "docs/part/index.md"
    text = CHAPTER.replace("two\none", "one\ntwo")
    index.write_text(text.replace("A `word`", "Words"))
    app = build()

    assert head(app, "part/one").startswith("Page 1 of 2")
    assert "Words<span" in rules_of(app)[1]


# -- Heads -------------------------------------------------------------------


def test_the_head_says_how_long_to_read_what_first_and_what_is_needed(
    house, build
):
    """Words and code take time, and what is folded takes none."""
    page = house / "docs/part/one.md"
    opened = page.read_text().replace("# One\n", "# One\n\nWhat.\n")
    folded = opened.replace("{cell} count", "{cell} count\n:folded:")
    front = "---\nread_first: part/two\n---\n\n"
    page.write_text(f"{front}{folded}\n{'word ' * 1000}\n")
    snippet = house / "snippets/part/one.py"
    load = "# %% start\nfrom sklearn.datasets import load_digits\n"
    lines = "\n".join(f"print({number})" for number in range(150))
    program = snippet.read_text().replace("# %% start\n", load)
    snippet.write_text(f"{program}{lines}\n")

    app = build()
    said = "5 min to read · read first: Two · needs scikit-learn · "
    assert head(app, "part/one").startswith(said)
    html = (app.outdir / "part/one.html").read_text()
    assert '<a class="reference internal" href="two.html">Two</a>' in html

    page.write_text(page.read_text().replace(":folded:", ""))
    assert head(build(), "part/one").startswith("10 min")


def test_a_recipe_has_the_same_head(site):
    said = "1 min to read · needs matplotlib · "
    assert head(site, "gallery/three").startswith(said)


FURO = {
    "html_theme": "furo",
    "html_theme_options": {
        "top_of_page_buttons": ["edit"],
        "source_repository": "https://github.com/owner/name/",
        "source_branch": "main",
        "source_directory": "docs/",
    },
}


def test_a_page_leads_to_its_source_and_a_recipe_nowhere(new_house):
    app = built(new_house(), confoverrides=FURO)
    page, recipe = (
        (app.outdir / f"{name}.html").read_text()
        for name in ("part/one", "gallery/three")
    )

    source = "https://github.com/owner/name/edit/main/docs/part/one.md"
    assert f'href="{source}"' in page
    assert "edit-this-page" not in recipe
