"""Code without marks that no style colours."""

import re
from html import unescape
from types import SimpleNamespace

from extensions.site.quiet_code import quiet_code

CODE = """import torch

# Words.
total = torch.ones(3).sum() + 1
"""
THEMES = SimpleNamespace(
    pygments_style="a11y-high-contrast-light", pygments_dark_style="native"
)


def shown(**styles):
    """Return the code as HTML, in some styles."""
    config = SimpleNamespace(**{**vars(THEMES), **styles})
    return quiet_code(CODE, config)


def test_the_words_of_the_code_stay():
    assert unescape(re.sub("<.*?>", "", shown())).strip() == CODE.strip()


def test_what_a_style_colours_keeps_its_mark():
    assert '<span class="kn">import</span>' in shown()
    assert '<span class="c1"># Words.</span>' in shown()


def test_what_no_style_colours_has_none():
    assert 'class="n"' not in shown()


def test_what_the_dark_style_alone_colours_keeps_its_mark():
    plain = shown(pygments_style="bw", pygments_dark_style="bw")
    dark = shown(pygments_style="bw", pygments_dark_style="native")

    assert 'class="mi"' not in plain
    assert 'class="mi"' in dark
