"""What stands around each page."""

from functools import partial

from docutils import nodes

from extensions.site.layout import PageContext, navigate_by_titles

# As Furo asks for its sidebar.
SIDEBAR = {"collapse": False, "maxdepth": -1, "includehidden": True}


def test_the_navigation_is_that_of_sphinx_and_copies_no_sections(house, build):
    for name in ("index", "part/one"):
        path = house / f"docs/{name}.md"
        path.write_text(f"{path.read_text()}\n## Below\n\n### Deeper\n")
    site, copied = build(), []

    def navigation(name, **options):
        contents = site.env.tocs.values()
        links = [e for each in contents for e in each.findall(nodes.reference)]
        copied.append({link["anchorname"] for link in links} - {""})
        return site.builder._get_local_toctree(name, **options)

    whole = site.env.tocs
    sections = {"#below", "#deeper"}
    for name in sorted(site.env.found_docs):
        of_sphinx = partial(navigation, name)
        page = PageContext(site, name, {"toctree": of_sphinx}, None)
        navigate_by_titles(page)

        for titles_only, expected in ((True, set()), (False, sections)):
            options = {**SIDEBAR, "titles_only": titles_only}
            copied.clear()
            short = page.values["toctree"](**options)
            assert short == of_sphinx(**options)
            assert copied == [expected, sections]
            assert site.env.tocs is whole


def test_a_caption_of_the_navigation_has_a_level(site):
    caption = '<p class="caption" role="heading">Learn</p>'
    page = PageContext(site, "index", {"toctree": lambda: caption}, None)
    navigate_by_titles(page)

    assert ' aria-level="2">' in page.values["toctree"]()
