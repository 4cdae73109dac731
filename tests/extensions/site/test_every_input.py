"""Whatever a page is made from: a change of it is seen, and seen to go.

One sequence over all files of the house in miniature, each changed alone while
the others stand as they were: what the build then writes has to be what a
fresh build of the same files writes.
"""

import shutil

import pytest

from tests.helpers.builds import written

# What is added to a file, by its ending, so that a page or a file differs.
ADDED = {
    ".md": "\nMore words.\n",
    ".rst": "\nMore words.\n",
    ".py": "\nprint('more')\n",
    ".toml": "\n# more\n",
    ".html": "\n<!-- more -->\n",
    ".xml": "\n",
}
OTHERS = {
    "docs/conf.py": "\nhtml_title = 'Another'\n",
    "tests/part/test_one.py": "\nMORE = 1\n",
}
# Not by hand; and one template stands for all.
LEFT = ("docs/code/", "docs/gallery/", "build/", "out/", "docs/templates/")
PANEL = "docs/templates/panel.html"


def inputs_of(house):
    """Return the files of a house that nothing has made."""
    names = (
        path.relative_to(house).as_posix()
        for path in sorted(house.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    )
    return [n for n in names if n == PANEL or not n.startswith(LEFT)]


def site(folder):
    """Return what stands in each file of a site."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".buildinfo")
    }


def fresh(house, make_app, tmp_path):
    """Return the site that the same files give where none was before."""
    place = tmp_path / "fresh"
    shutil.rmtree(place, ignore_errors=True)
    copy = shutil.copytree(house, place, ignore=shutil.ignore_patterns("out"))
    app = make_app("html", srcdir=copy / "docs", builddir=copy / "out")
    app.build()
    return site(app.outdir)


@pytest.fixture
def rich(house):
    """A house with something of each kind that a page can show."""
    path = house / "docs/evidence/corrections/part/one.toml"
    path.parent.mkdir(parents=True)
    path.write_text(
        '[[correction]]\nsource = "A"\nsection = "1"\nsaid = "two"\n'
        'holds = "one"\nclaim = "word-is-one"\n'
    )
    claims = house / "docs/evidence/claims.md"
    claims.write_text(f"{claims.read_text()}\n```{{corrections}}\n```\n")
    two = house / "docs/part/two.md"
    two.write_text(
        f"{two.read_text()}\n```{{recap}} part/one#word-is-one\n```\n"
    )
    return house


def test_a_change_of_any_file_gives_the_site_of_a_fresh_build(
    rich, build, make_app, tmp_path
):
    before = site(build().outdir)
    names = inputs_of(rich)
    unseen = []

    for name in names:
        path = rich / name
        content = path.read_text()
        path.write_text(content + OTHERS.get(name, ADDED[path.suffix]))
        there = site(build().outdir)
        if there == before:
            unseen.append(name)
        assert there == fresh(rich, make_app, tmp_path), name
        path.write_text(content)

    assert site(build().outdir) == before
    assert unseen == [
        "docs/evidence/corrections/part/one.toml",  # a comment
        "snippets/GALLERY_HEADER.rst",  # of lists that no page shows
        "snippets/part/GALLERY_HEADER.rst",
    ]


def test_other_colours_of_code_write_all_pages_again(house, build):
    with (house / "docs/conf.py").open("a") as conf:
        conf.write("html_theme = 'furo'\n")
    build()
    with (house / "docs/conf.py").open("a") as conf:
        conf.write("pygments_dark_style = 'monokai'\n")

    app = build()

    assert written(app) >= {"index", "part/one"}
    page = app.outdir / "evidence/tests/part/one.html"
    assert page.stat().st_mtime > (house / "docs/conf.py").stat().st_mtime
    assert written(build()) == set()


def test_our_own_code_and_what_is_installed_write_all_pages_again(
    build, monkeypatch
):
    for part in ("installed", "our_code"):
        monkeypatch.setattr(
            f"extensions.site.dependencies.{part}", lambda: "other"
        )

        assert written(build()) >= {"index", "part/one"}
        assert written(build()) == set()
