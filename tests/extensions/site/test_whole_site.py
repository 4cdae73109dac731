"""A site of which a build wrote a part only, and the next build."""

import pytest

from extensions.site.whole_site import MARKER, begin, finish


@pytest.fixture
def pages(build):
    """Build a site; return its folder."""
    return build().outdir


def test_half_a_page_is_written_anew_if_the_build_was_cut_short(pages, build):
    page = pages / "part/one.html"
    whole = page.read_text()
    page.write_text(whole[:100])
    (pages / ".buildinfo").write_text("")
    (pages / MARKER).touch()

    build()

    assert page.read_text() == whole


def test_a_build_that_ends_with_an_error_leaves_its_mark(build):
    app = build()
    marker = app.outdir / MARKER
    finished = not marker.exists()

    begin(app)
    finish(app, OSError("no space left"))

    assert finished
    assert marker.exists()
