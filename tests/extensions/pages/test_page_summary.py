"""What others show of a page: its first sentence, and its minutes."""

from extensions.pages.page_summary import summary_of

PROSE = """# One

You will write `x = 1`, *once*.
A second sentence.

"""


def test_a_summary_is_the_first_sentence_with_its_code(house, build):
    page = house / "docs/part/one.md"
    page.write_text(page.read_text().replace("# One\n", PROSE, 1))

    summary = summary_of(build().env, "part/one")
    assert summary.text == "You will write `x = 1`, once."
    assert summary.minutes == 1


def test_what_nobody_has_read_says_nothing(site):
    assert summary_of(site.env, "part/none").text == ""


def test_code_and_words_take_time_and_what_is_folded_takes_none(house, build):
    page = house / "docs/part/one.md"
    page.write_text(f"{page.read_text()}\n{'word ' * 1000}\n")

    assert summary_of(build().env, "part/one").minutes == 5
