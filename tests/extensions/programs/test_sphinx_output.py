"""What cells gave, as a part of the pages that show it."""

from pathlib import Path


def test_no_doctree_takes_the_whole_environment_along(site):
    for path in Path(site.doctreedir).rglob("*.doctree"):
        assert b"BuildEnvironment" not in path.read_bytes(), path
