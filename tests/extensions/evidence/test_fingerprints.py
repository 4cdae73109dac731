"""What a result rests on."""

import pytest

from extensions.evidence import surroundings
from extensions.evidence.fingerprints import fingerprints
from extensions.evidence.modules import evidence_modules
from extensions.programs.snippet import CUDA_GUARD

ONE, TWO, THREE, CUDA = (
    "tests.part.test_one",
    "tests.part.test_two",
    "tests.gallery.test_three",
    "tests.test_cuda_cells",
)


@pytest.fixture
def changes(house):
    """Return which modules get another fingerprint from a change."""
    (house / "tests/test_cuda_cells.py").write_text("")
    (house / "tests/conftest.py").write_text(
        "def fixture():\n    import extensions.first\n"
    )
    (house / "extensions/deep").mkdir(parents=True)
    for name, text in {
        "__init__": "",
        "first": "from extensions import deep\nimport os\n",
        "deep/__init__": "from .second import word\n",
        "deep/second": "word = 1\n",
        "other": "",
    }.items():
        (house / f"extensions/{name}.py").write_text(text)
    test = house / "tests/part/test_one.py"
    test.write_text("from extensions.other import x\n" + test.read_text())
    snippet = house / "snippets/part/two.py"
    snippet.write_text(
        snippet.read_text() + f"\n# %% device\n{CUDA_GUARD}\n    print(1)\n"
    )
    before = fingerprints(house, evidence_modules(house))

    def changes():
        now = fingerprints(house, evidence_modules(house))
        return {name for name in now if now[name] != before.get(name)}

    return changes


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("snippets/part/one.py", {ONE}),
        ("tests/part/test_one.py", {ONE}),
        ("gallery/three.py", {THREE}),
        ("extensions/other.py", {ONE}),
        ("snippets/part/two.py", {TWO, CUDA}),
        ("tests/conftest.py", {ONE, TWO, THREE, CUDA}),
        ("extensions/__init__.py", {ONE, TWO, THREE, CUDA}),
        ("extensions/first.py", {ONE, TWO, THREE, CUDA}),
        ("extensions/deep/second.py", {ONE, TWO, THREE, CUDA}),
        ("extensions/unused.py", set()),
        ("docs/part/one.md", set()),
    ],
)
def test_a_result_rests_on_all_that_its_module_imports(
    house, changes, name, changed
):
    with (house / name).open("a") as file:
        file.write("# more\n")

    assert changes() == changed


def test_the_test_of_cuda_cells_rests_on_new_ones_too(house, changes):
    snippet = house / "snippets/part/one.py"
    snippet.write_text(
        snippet.read_text() + f"\n# %% device\n{CUDA_GUARD}\n    print(1)\n"
    )

    assert changes() == {ONE, CUDA}


def test_a_result_rests_on_the_versions_of_libraries(changes, monkeypatch):
    monkeypatch.setattr(
        surroundings, "_version", lambda name: (f"{name} 9", ())
    )

    assert changes() == {ONE, TWO, THREE, CUDA}


def test_a_file_that_is_not_python_has_a_basis_too(house, changes):
    (house / "tests/part/test_one.py").write_bytes(b"\xff def")

    assert changes() == {ONE}
