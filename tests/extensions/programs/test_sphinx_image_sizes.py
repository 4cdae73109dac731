"""The sizes of pictures."""

import re


def test_a_picture_says_its_size_and_leads_nowhere(site):
    html = (site.outdir / "gallery/three.html").read_text()

    images = re.findall(r"<img [^>]*sphx_glr_three[^>]*>", html)

    assert len(images) == 4  # in light and in dark, at the head and below
    for image in images:
        assert re.search(r' width="\d{3}"', image)
        assert re.search(r' height="\d{3}"', image)
    assert "image-reference" not in html


def test_a_size_that_a_page_gives_stays(house, build):
    drawn = '<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>'
    (house / "docs/dot.svg").write_text(drawn)
    page = house / "docs/index.md"
    page.write_text(
        page.read_text() + "\n```{image} dot.svg\n:width: 50%\n```"
    )

    html = (build().outdir / "index.html").read_text()

    [image] = re.findall(r"<img [^>]*dot[^>]*>", html)
    assert "width: 50%" in image
    assert "height" not in image
