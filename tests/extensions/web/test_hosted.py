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


@pytest.fixture(scope="module")
def hosted(new_house):
    """The site of a house with such an address, without a slash behind."""
    house = new_house()
    said = settings("https://example.org/guide")
    options = {name: said[name] for name in said if OURS.match(name)}
    own = runpy.run_path(str(house / "docs/conf.py"))["extensions"]
    options["extensions"] = own + HOSTED
    return built(house, confoverrides=options)


def test_only_a_site_with_an_address_has_them():
    assert {*HOSTED} <= {*settings("https://example.org/")["extensions"]}
    assert not {*HOSTED} & {*settings("")["extensions"]}


def test_a_page_is_described_in_its_head(hosted):
    page = (hosted.outdir / "part/one.html").read_text()

    assert not hosted.warning.getvalue()
    assert '<meta name="description" content="' in page
    address = "https://example.org/guide/part/one.html"
    assert f'<meta property="og:url" content="{address}" />' in page


def test_the_sitemap_lists_the_pages(hosted):
    root = ElementTree.parse(hosted.outdir / "sitemap.xml").getroot()
    places = {place.text for place in root.findall(".//{*}loc")}

    assert "https://example.org/guide/part/one.html" in places
    assert "https://example.org/guide/404.html" not in places


def test_the_page_for_other_addresses_links_to_the_root_of_the_site(hosted):
    page = (hosted.outdir / "404.html").read_text()

    assert "<h1>No such page</h1>" in page
    links = re.findall(r'(?:href|src)="([^"#]+)', page)
    assert any(link.startswith("/guide/_static/") for link in links)
    assert not [each for each in links if not each.startswith(("/", "http"))]
