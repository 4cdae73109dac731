"""Old addresses lead to where claims and pages are now."""

import json

import jsonschema
import pytest

from extensions.claims.moved import moves_lead_somewhere
from extensions.core.topics import ROOT
from extensions.lint.file_rules import moves_are_whole

CLAIMS = '[claims]\n"part/one#gone" = "part/two#word-is-two"\n'
PAGES = '[pages]\n"part/old" = "part/one"\n'


@pytest.fixture
def moved(house):
    """Write what moved."""

    def moved(content):
        (house / "docs/moved.toml").write_text(content)

    return moved


def test_a_claim_that_moved_leads_on_from_its_old_page(house, build, moved):
    moved(CLAIMS)

    app = build()

    html = (app.outdir / "part/one.html").read_text()
    assert not app.warning.getvalue()
    assert (
        '<li id="gone"><span id="proof-gone"></span><span id="sign-gone">'
        "</span>“<code>word</code> is two” has moved to"
        ' <a href="two.html#word-is-two">Two</a>.</li>'
    ) in html
    assert "has moved" not in (app.outdir / "part/one.md").read_text()
    for name in ("evidence/claims/part", "evidence/scopes/part"):
        html = (app.outdir / f"{name}.html").read_text()
        row = html.partition('id="part-two-word-is-two"')[2]
        assert row.count('<span id="part-one-gone"></span>') == 1


def test_a_claim_that_was_renamed_leads_on_within_its_page(build, moved):
    moved(CLAIMS.replace("part/one#gone", "part/two#gone"))

    html = (build().outdir / "part/two.html").read_text()

    assert 'has <a href="#word-is-two">a new address</a>.</li>' in html


def test_the_list_is_written_when_something_moves(build, moved):
    build()
    moved(CLAIMS)
    app = build()

    assert 'id="gone"' in (app.outdir / "part/one.html").read_text()
    moved("")
    assert 'id="gone"' not in (build().outdir / "part/one.html").read_text()


def test_claims_json_says_what_a_claim_was_called(build, moved):
    moved(CLAIMS + PAGES)
    found = json.loads((build().outdir / "claims.json").read_text())
    schema = (ROOT / "docs/_extra/claims.schema.json").read_text()

    jsonschema.validate(found, json.loads(schema))
    assert [each.get("formerly") for each in found["claims"]] == [
        None,
        ["part/old#word-is-one"],
        ["part/one#gone"],
    ]


@pytest.mark.parametrize(
    ("base", "canonical"),
    [("", "one.html"), ("https://a.org/b/", "https://a.org/b/part/one.html")],
)
def test_a_page_that_moved_leaves_one_behind(build, moved, base, canonical):
    moved(CLAIMS.replace("part/one#", "part/old#") + PAGES)

    app = build(confoverrides={"html_baseurl": base})

    html = (app.outdir / "part/old.html").read_text()
    assert not app.warning.getvalue()
    assert f'<link rel="canonical" href="{canonical}">' in html
    assert 'http-equiv="refresh" content="0; url=one.html"' in html
    assert 'moved to <a id="page" href="one.html">One</a>.' in html
    assert '<li id="gone">' in html
    tests = (app.outdir / "evidence/tests/part/old.html").read_text()
    assert '<a id="page" href="one.html">Tests: One</a>' in tests
    moved("")
    assert not (build().outdir / "part/old.html").exists()


# MyST reports a broken link with what Sphinx 11 will not have.
@pytest.mark.filterwarnings("ignore:.*MystReferenceResolver.app")
def test_the_guide_itself_links_to_the_new_address(house, build, moved):
    moved(CLAIMS + PAGES)
    page = house / "docs/index.md"
    links = "\n[a](part/one.md#gone), [b](part/old.md).\n"
    page.write_text(page.read_text() + links)

    warning = build().warning.getvalue()

    assert "index.md:14: WARNING: local id not found in doc 'part/one'" in (
        warning
    )
    assert "'part/old.md'" in warning


def test_an_old_address_that_a_heading_has_is_named(house, build, moved):
    moved(CLAIMS)
    page = house / "docs/part/one.md"
    page.write_text(page.read_text() + "\n## Gone\n")

    warning = build().warning.getvalue()

    said = "part/one#gone still exists: a heading has this address"
    assert f"docs/moved.toml:2: WARNING: {said}" in warning


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            '[claims]\n"part/one#gone" = "part/two#lost"\n',
            "2: part/one#gone moved to part/two#lost, which does not exist",
        ),
        (
            '[pages]\n# A\n"part/old" = "part/new"\n',
            "3: part/old moved to part/new, which does not exist",
        ),
        (
            '[claims]\n"part/one#word-is-one" = "part/two#word-is-two"\n',
            "2: part/one#word-is-one still exists: it has not moved",
        ),
        (
            '[pages]\n"part/one" = "part/two"\n',
            "2: part/one still exists: it has not moved",
        ),
        (
            CLAIMS + '"part/one#older" = "part/one#gone"\n',
            "3: part/one#gone has moved as well: name its newest address",
        ),
        (
            PAGES + '"part/older" = "part/old"\n',
            "3: part/old has moved as well: name its newest address",
        ),
        (
            PAGES + '[claims]\n"part/one#gone" = "part/old#word-is-one"\n',
            "4: part/old#word-is-one has moved as well:"
            " name its newest address",
        ),
        (
            '[claims]\n"part/old#gone" = "part/one#word-is-one"\n',
            "2: page part/old is gone: say in [pages] where it moved",
        ),
    ],
)
def test_a_move_that_leads_nowhere_is_named_at_its_line(
    house, moved, content, said
):
    moved(content)

    found = [str(each) for each in moves_lead_somewhere(house)]

    assert found == [f"{house}/docs/moved.toml:{said}"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[claims]\n[other]\n", "2: 'other' is neither of the tables"),
        ("\npages = 1\n", "2: 'pages' is neither of the tables"),
        ('[claims]\n"part/one" = "part/two#a"\n', "2: not of the form"),
        ('[claims]\n"part/one#a" = "part/two"\n', "2: not of the form"),
        ('[pages]\n"part/old" = 5\n', "2: not of the form"),
        ('[pages]\n"part/old.html" = "part/two"\n', "2: not of the form"),
        ('[pages]\n"part/old" = \n', "2: not TOML"),
    ],
)
def test_a_malformed_entry_is_named_at_its_line(house, moved, content, said):
    moved(content)

    (problem,) = moves_are_whole(house)

    assert str(problem).startswith(f"{house}/docs/moved.toml:{said}")
