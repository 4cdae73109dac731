extensions = [
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "extensions.archives",
    "extensions.cell",
    "extensions.claims",
    "extensions.house",
    "extensions.marks",
    "extensions.measured",
    "extensions.notebooks",
    "extensions.origins",
    "extensions.program",
    "extensions.sources",
]
exclude_patterns = ["code/**"]
myst_enable_extensions = ["attrs_inline"]
house_evidence = ["build/evidence", "evidence"]
templates_path = ["templates"]
sphinx_gallery_conf = {
    "examples_dirs": ["../snippets", "../gallery"],
    "gallery_dirs": ["code", "gallery"],
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "image_scrapers": ("extensions.figures.scrape",),
    "reset_modules": ("matplotlib", "extensions.gallery.freeze_imports"),
    "write_computation_times": False,
}
