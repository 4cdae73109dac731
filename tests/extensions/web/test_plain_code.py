"""Code without marks that no style colours."""

import re
import runpy
from html import unescape

from pygments import highlight
from pygments.lexers import PythonLexer
from sphinx.highlighting import PygmentsBridge

from extensions.core.topics import ROOT
from extensions.web.plain_code import PlainCodeFormatter

CODE = """import torch

# Words.
total = torch.ones(3).sum() + 1
"""


def shown(light="a11y-high-contrast-light", dark="native"):
    """Return the code as HTML, in some styles."""
    styles = tuple(
        PygmentsBridge("html", name).formatter_args["style"]
        for name in (light, dark)
    )
    return highlight(CODE, PythonLexer(), PlainCodeFormatter(styles=styles))


def test_the_words_of_the_code_stay():
    assert unescape(re.sub("<.*?>", "", shown())).strip() == CODE.strip()


def test_what_a_style_colours_keeps_its_mark():
    assert '<span class="kn">import</span>' in shown()
    assert '<span class="c1"># Words.</span>' in shown()


def test_what_no_style_colours_has_none():
    assert 'class="n"' not in shown()


def test_the_styles_of_the_guide_leave_names_plain():
    dark = runpy.run_path(str(ROOT / "conf.py"))["pygments_dark_style"]

    assert 'class="n"' not in shown(dark=dark)
    assert 'class="mi"' in shown(dark=dark)


def test_what_the_dark_style_alone_colours_keeps_its_mark():
    assert 'class="mi"' not in shown("bw", "bw")
    assert 'class="mi"' in shown("bw", "native")


def test_no_code_of_the_site_marks_its_names(house, build):
    with (house / "docs/conf.py").open("a") as conf:
        conf.write('pygments_style = "a11y-high-contrast-light"\n')
    app = build()

    for name in ("part/one", "evidence/tests/part/one"):
        page = (app.outdir / f"{name}.html").read_text()
        assert 'class="o"' in page
        assert 'class="n"' not in page
