"""The policy of each page."""

import base64
import hashlib

from extensions.web.content_security_policy import policy


def of(html):
    """Return the policy of a page."""
    return html.partition('Content-Security-Policy" content="')[2].split('"')[
        0
    ]


def test_each_page_has_a_policy_before_its_first_script(site):
    pages = list(site.outdir.rglob("*.html"))

    assert len(pages) > 5
    for page in pages:
        html = page.read_text()
        assert html.index("Content-Security-Policy") < html.index("<script")
        scripts = of(html).partition("script-src ")[2].partition(";")[0]
        assert scripts.startswith("'self'")
        assert "unsafe-inline" not in scripts


def test_a_script_in_a_template_is_known_by_its_hash(tmp_path):
    script = ' go("&"); '
    folder = tmp_path / "components"
    folder.mkdir()
    (folder / "a.html").write_text(
        f'<script src="b.js"></script><script>{script}</script>'
    )

    digest = hashlib.sha256(script.encode()).digest()
    known = f"'sha256-{base64.b64encode(digest).decode()}'"
    said = policy((str(tmp_path),))
    assert f"script-src 'self' {known};" in said
    assert said.count("sha256") == 1
