"""What conf.py adds to a site whose address is known."""

import re
import runpy
from xml.etree import ElementTree

import pytest

from extensions.core.topics import ROOT
from tests.helpers.builds import built

# sphinx-sitemap asks the environment for the application.
pytestmark = pytest.mark.filterwarnings("ignore:.*BuildEnvironment.app")
HOSTED = ["notfound.extension", "sphinx_sitemap", "sphinxext.opengraph"]
OURS = re.compile("html_baseurl|notfound_|ogp_|sitemap_")


def settings(address):
    """Return what conf.py says where the site has an address."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PROVEN_PYTORCH_URL", address)
        return runpy.run_path(str(ROOT / "conf.py"))


def test_only_a_site_with_an_address_has_them():
    assert {*HOSTED} <= {*settings("https://example.org/")["extensions"]}
    assert not {*HOSTED} & {*settings("")["extensions"]}


def test_a_site_is_described_listed_and_has_a_page_for_other_addresses(
    new_house,
):
    house = new_house()
    said = settings("https://example.org/guide")  # without a slash behind
    options = {name: said[name] for name in said if OURS.match(name)}
    own = runpy.run_path(str(house / "docs/conf.py"))["extensions"]
    options["extensions"] = own + HOSTED
    app = built(house, confoverrides=options)

    assert not app.warning.getvalue()
    address = "https://example.org/guide/part/one.html"
    page = (app.outdir / "part/one.html").read_text()
    assert '<meta name="description" content="' in page
    assert f'<meta property="og:url" content="{address}" />' in page

    sitemap = ElementTree.parse(app.outdir / "sitemap.xml")
    places = {place.text for place in sitemap.findall(".//{*}loc")}
    assert address in places
    assert "https://example.org/guide/404.html" not in places

    missing = (app.outdir / "404.html").read_text()
    assert "<h1>No such page</h1>" in missing
    links = re.findall(r'(?:href|src)="([^"#]+)', missing)
    assert any(link.startswith("/guide/_static/") for link in links)
    assert not [each for each in links if not each.startswith(("/", "http"))]
