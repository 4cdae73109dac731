"""The mirror of pages, snippets, tests and outputs."""

from pathlib import Path

from extensions.core.topics import Topic, topic_of_tests, topics

ROOT = Path("root")


def test_everything_follows_from_the_path_of_a_topic_and_back():
    topic = Topic(ROOT, "autograd/detach")

    assert topic.chapter == "autograd"
    assert topic.page == ROOT / "docs/autograd/detach.md"
    assert topic.snippet == ROOT / "snippets/autograd/detach.py"
    assert topic.tests == ROOT / "tests/autograd/test_detach.py"
    assert topic.output == ROOT / "docs/code/autograd/detach.rst"
    assert topic_of_tests(ROOT, topic.tests) == topic


def test_a_recipe_is_page_and_snippet_in_one():
    topic = Topic(ROOT, "gallery/leaking_loss")

    assert topic.page == topic.snippet == ROOT / "gallery/leaking_loss.py"
    assert topic.output == ROOT / "docs/gallery/leaking_loss.rst"


def test_every_program_is_a_topic(house):
    names = [topic.name for topic in topics(house)]

    assert names == ["gallery/three", "part/one", "part/two"]
