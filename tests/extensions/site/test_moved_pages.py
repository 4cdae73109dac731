"""The addresses of pages that have moved."""

import pytest


def test_an_old_address_leads_to_the_new_one(house, build):
    (house / "docs/moved.toml").write_text('"old/first" = "part/one"\n')

    app = build()

    html = (app.outdir / "old/first.html").read_text()
    uri = "../part/one.html"
    assert f'<meta http-equiv="refresh" content="0; url={uri}">' in html
    assert f'<a href="{uri}">One</a>' in html
    assert not app.warning.getvalue()


@pytest.mark.parametrize(
    ("moved", "said"),
    [
        ('"old" = "part/none"', "no page 'part/none'"),
        ('"part/two" = "part/one"', "there is a page 'part/two'"),
    ],
)
def test_what_cannot_have_moved_is_reported(house, stopped, moved, said):
    (house / "docs/moved.toml").write_text(f"# Moved.\n{moved}\n")

    [line] = stopped()

    assert line.endswith(f"docs/moved.toml:2: ERROR: {said} [house]")
