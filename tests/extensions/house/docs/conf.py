extensions = [
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "extensions.site.builder",
    "extensions.site.cell",
    "extensions.site.check_files",
    "extensions.site.check_room",
    "extensions.site.claims_json",
    "extensions.site.download_all",
    "extensions.site.exercise",
    "extensions.site.fold",
    "extensions.site.hold_rules",
    "extensions.site.ledger_pages",
    "extensions.site.marks",
    "extensions.site.measured",
    "extensions.site.measurements_json",
    "extensions.site.notebooks",
    "extensions.site.one_at_a_time",
    "extensions.site.one_line",
    "extensions.site.only_html",
    "extensions.site.page_basis",
    "extensions.site.page_downloads",
    "extensions.site.page_head",
    "extensions.site.raised",
    "extensions.site.ranking",
    "extensions.site.recap",
    "extensions.site.remember",
    "extensions.site.run_programs",
    "extensions.site.source_texts",
    "extensions.site.summaries",
    "extensions.site.test_pages",
]
exclude_patterns = ["code/**"]
suppress_warnings = ["sphinx_gallery.space_in_filename"]
myst_enable_extensions = ["attrs_inline"]
house_evidence = ["build/evidence", "evidence"]
templates_path = ["templates"]
sphinx_gallery_conf = {
    "examples_dirs": ["../snippets", "../gallery"],
    "gallery_dirs": ["code", "gallery"],
    "filename_pattern": r"\.py$",
    "abort_on_example_error": True,
    "image_scrapers": ("extensions.site.figures.scrape",),
    "reset_modules": ("matplotlib",),
    "min_reported_time": 60,
    "write_computation_times": False,
    "download_all_examples": False,
}
