"""Sphinx configuration.

Values only: no functions, no setup(). Behaviour lives in extensions/.
"""

import os
import posixpath
import sys
from pathlib import Path
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parent))  # where extensions/ stands

from extensions.core.syntax import EXTENSIONS

# -- Project -----------------------------------------------------------------

project = "Proven PyTorch"
author = "the Proven PyTorch authors"
copyright = f"2026, {author}. Code: BSD-3-Clause. Prose: CC BY 4.0"

# -- What is read ------------------------------------------------------------

# Pages show the programs of code/ cell by cell; a second page of each would
# only stand beside it in the search.
exclude_patterns = ["code/**", "_*"]

extensions = [
    "extensions.site",  # first of all: ours build on it
    # Third party
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    # Ours
    "extensions.programs",
    "extensions.prose",
    "extensions.pages",
    "extensions.claims",
    "extensions.measurements",
    "extensions.notebooks",
    "extensions.web",
    "extensions.lint",
]

nitpicky = True
suppress_warnings = [
    # Two chapters may have a topic of one name: links and pictures of a page
    # are found by its whole path.
    "sphinx_gallery.duplicate_filename",
    # Of the whole path, where only a space in a program's own name would
    # matter.
    "sphinx_gallery.space_in_filename",
]

# -- Pages -------------------------------------------------------------------

myst_enable_extensions = sorted(EXTENSIONS)
myst_heading_anchors = 3

# What is wrong on purpose is not to be copied.
copybutton_selector = "div.highlight pre:not(.cell-wrong *)"

# Where the guide is kept, such as https://github.com/owner/name: pages offer
# to edit them.
repository = os.environ.get("PROVEN_PYTORCH_REPOSITORY", "")

# Where all notebooks are kept on GitHub, such as owner/name/blob/notebooks;
# pages then offer to open theirs in Colab.
notebooks_repository = os.environ.get("PROVEN_PYTORCH_NOTEBOOKS", "")

# -- Evidence ----------------------------------------------------------------

# Folders of runs: the run of this build, then the recorded ones.
evidence_folders = ["build/evidence", "evidence"]

# -- Snippets ----------------------------------------------------------------

sphinx_gallery_conf = {
    "examples_dirs": ["../snippets", "../gallery"],
    "gallery_dirs": ["code", "gallery"],
    "filename_pattern": r"\.py$",  # every program runs, not only plot_*
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "image_scrapers": ("extensions.programs.sphinx_figures.scrape",),
    "ignore_repr_types": r"matplotlib\.",  # the picture says it
    "min_reported_time": sys.maxsize,  # a time would change at every build
    "write_computation_times": False,  # likewise
    "show_signature": False,
    "download_all_examples": False,  # the front page offers all of them
    "css": [],  # its cards and outputs have the styles of the house
    "reset_modules": (
        "matplotlib",
        "extensions.programs.snippet.reset_torch",
    ),
}

# -- HTML --------------------------------------------------------------------

html_theme = "furo"
# Where the site is hosted, if anywhere; notebooks then link back to their
# pages.
html_baseurl = posixpath.join(os.environ.get("PROVEN_PYTORCH_URL", ""), "")
html_title = project
html_favicon = "docs/_static/favicon.svg"
html_scaled_image_link = False  # a picture says its size, and is whole
html_use_index = False  # its words are those of the glossary
html_static_path = ["docs/_static"]
html_extra_path = ["docs/_extra"]
html_css_files = ["house.css"]
html_js_files = [("house.js", {"defer": "defer"})]
# The dark sister of Furo's light style: both leave names plain, which are most
# of a program. Furo's own underlines some, which then look like links.
pygments_dark_style = "a11y-dark"
# What leads somewhere is blue: green is for what is proven, red for what is
# wrong.
html_theme_options = {
    "top_of_page_buttons": ["edit"],  # where the repository is known
    "source_repository": repository,
    "source_branch": "main",
    "source_directory": "docs/",
    "light_css_variables": {
        "color-brand-primary": "#0a56b3",
        "color-brand-content": "#0a56b3",
        "color-brand-visited": "#0a56b3",
        "color-sidebar-link-text--top-level": "inherit",
        # Small, and small in what is small: nothing falls below 13 pixels.
        "font-size--small": "max(87.5%, 0.8125rem)",
        "font-size--small--2": "max(81.25%, 0.8125rem)",
        "font-size--small--3": "0.8125rem",
        "font-size--small--4": "0.8125rem",
    },
    "dark_css_variables": {
        "color-brand-primary": "#7db8ff",
        "color-brand-content": "#7db8ff",
        "color-brand-visited": "#7db8ff",
    },
}

# -- What needs the address of the site --------------------------------------

# A description in the head of each page, a sitemap, a page for addresses that
# do not exist.
extensions += (
    ["notfound.extension", "sphinx_sitemap", "sphinxext.opengraph"]
    if html_baseurl
    else []
)
ogp_site_url = html_baseurl
ogp_social_cards = {"enable": False}  # a picture of the title, for each page
sitemap_url_scheme = "{link}"  # one version, in one language
sitemap_excludes = ["404.html"]
notfound_urls_prefix = urlsplit(html_baseurl).path
notfound_context = {
    "title": "No such page",
    "body": f"""
<h1>No such page</h1>
<p>Nothing stands at this address: it may be mistyped, or its page may have
moved. <a href="{notfound_urls_prefix}index.html">The front page</a> searches
all pages, and shows the chapters.</p>
""",
}
