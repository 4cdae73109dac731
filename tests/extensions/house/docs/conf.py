"""A house in miniature, with all extensions of ours and no theme."""

import runpy
from pathlib import Path

import extensions as ours

GUIDE = runpy.run_path(str(Path(ours.__file__).parents[1] / "conf.py"))
# As the guide lists them, but for what only its pages use.
extensions = [
    name
    for name in GUIDE["extensions"]
    if name == "myst_parser" or name.startswith("extensions.")
]
myst_enable_extensions = GUIDE["myst_enable_extensions"]
del ours, GUIDE
exclude_patterns = ["code/**"]
suppress_warnings = ["sphinx_gallery.space_in_filename"]
evidence_folders = ["build/evidence", "evidence"]
html_scaled_image_link = False
sphinx_gallery_conf = {
    "examples_dirs": ["../snippets", "../gallery"],
    "gallery_dirs": ["code", "gallery"],
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "image_scrapers": ("extensions.programs.sphinx_figures.scrape",),
    "reset_modules": ("matplotlib",),
    "min_reported_time": 60,
    "write_computation_times": False,
    "download_all_examples": False,
}
