"""What each page rests on, and when it is read again."""

from types import SimpleNamespace

import pytest

from extensions.site.dependencies import depend_on
from tests.helpers.evidence import record

RECAP = "\n```{recap} part/one#word-is-one\n```\n"


@pytest.fixture
def pages(house):
    """Two pages, the second of which repeats a claim of the first."""
    two = house / "docs/part/two.md"
    two.write_text(two.read_text() + RECAP)
    return house / "docs/part/one.md", house / "docs/part/two.md"


@pytest.fixture
def read(build):
    """Build, and return the names of the pages that were read."""

    def read():
        return build().env.house_read

    return read


@pytest.fixture(autouse=True)
def _noted(house):
    """Let the house note what it reads."""
    conf = house / "docs/conf.py"
    conf.write_text(
        conf.read_text()
        + "\n\ndef note(app, env, names):\n    env.house_read = set(names)\n"
        "\n\ndef setup(app):\n"
        '    app.connect("env-before-read-docs", note)\n'
    )


def edit(path, old, new):
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def test_a_kind_that_nobody_added_is_an_error():
    with pytest.raises(KeyError, match="clams"):
        depend_on(SimpleNamespace(docname="one"), "clams")


def test_another_sentence_renews_its_page_and_what_counts_sentences(
    house, pages, read
):
    index = house / "docs/index.md"
    index.write_text(index.read_text() + "\n```{tally}\n```\n")
    read()

    edit(pages[0], "# One\n", "# One\n\nA sentence more.\n")

    assert read() == {"index", "part/one"}


def test_other_words_of_a_claim_renew_the_pages_that_repeat_it(pages, read):
    read()

    edit(pages[0], "is one]", "is still one]")

    assert {"evidence/claims", "part/one", "part/two"} <= read()


def test_another_title_renews_the_pages_that_show_it(house, pages, read):
    page = house / "docs/other.md"
    page.write_text("# Other\n\n```{cell} count\n:from: part/one\n```\n")
    edit(house / "docs/index.md", "part/*", "part/*\nother")
    read()

    edit(pages[0], "# One", "# Once")

    assert "other" in read()
    assert "part/two" not in read()


def test_another_result_is_shown_wherever_the_claim_is(house, pages, build):
    build()
    record(house, test_word_is_one="failed")

    app = build()

    html = (app.outdir / "part/two.html").read_text()
    assert 'aria-label="failed"' in html
