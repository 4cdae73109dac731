"""Templates and styles that stand beside the code of their feature."""

from pathlib import Path
from types import SimpleNamespace

from extensions.site.layout import add_static, add_templates


def test_a_feature_brings_its_templates_and_its_styles(site):
    assert "claim-panel" in (site.outdir / "part/one.html").read_text()
    assert (site.outdir / "_static/search.css").exists()


def test_the_folders_are_named_as_conf_py_names_them(tmp_path):
    config = SimpleNamespace(
        templates_path=["docs/own"], html_static_path=["docs/_static"]
    )
    app = SimpleNamespace(config=config, confdir=tmp_path)
    package = str(tmp_path / "extensions/claims/__init__.py")

    add_templates(app, package)
    add_static(app, package)

    assert config.templates_path == ["docs/own", "extensions/claims/templates"]
    assert config.html_static_path == [
        "docs/_static",
        "extensions/claims/static",
    ]


def test_the_hash_of_the_settings_names_no_folder_of_the_machine(site):
    named = [*site.config.templates_path, *site.config.html_static_path]
    ours = [name for name in named if "extensions" in Path(name).parts]

    assert ours
    assert not any(Path(name).is_absolute() for name in ours)
