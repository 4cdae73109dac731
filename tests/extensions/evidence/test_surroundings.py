"""What results are made with besides code, and which files they depend on."""

import pytest

from extensions.core import environment
from extensions.evidence import surroundings
from extensions.evidence.kept_results import Modules
from extensions.programs.snippet import CUDA_GUARD

ONE, TWO, THREE, CUDA = (
    "tests.part.test_one",
    "tests.part.test_two",
    "tests.gallery.test_three",
    "tests.test_cuda_cells",
)
ALL = {ONE, TWO, THREE, CUDA}
FILES = {
    "pyproject.toml": "[tool.pytest]\nstrict = true\n[tool.ruff]\n",
    "tests/conftest.py": "",
    "tests/helpers/of_one.py": "import fake\nimport os\nos.environ['FAKE']\n",
    "tests/test_cuda_cells.py": "def test_a_cell():\n    pass\n",
}


@pytest.fixture
def project(house):
    """The house, with all that a result of it may depend on."""
    for name, text in FILES.items():
        path = house / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    test = house / "tests/part/test_one.py"
    test.write_text("from tests.helpers import of_one\n" + test.read_text())
    add_device(house / "snippets/part/two.py")
    return house


def add_device(snippet):
    """Add a cell to a program that needs a device."""
    text = snippet.read_text()
    snippet.write_text(f"{text}\n# %% device\n{CUDA_GUARD}\n    print(1)\n")


def made(project):
    """Return what each module is made with, and a hash of its test's code.

    As a new process would find it; only ``install`` changes what is installed,
    which takes long to read.
    """
    surroundings.device.cache_clear()
    tests = Modules(project)
    return {
        name: {*tests.depend[name].made_with, *tests.now(name).values()}
        for name in tests.modules
    }


def changed(now, before):
    """Return the modules of which something changed, and what, once."""
    modules = {name for name in now if now[name] != before[name]}
    lines = [line for name in modules for line in now[name] ^ before[name]]
    return modules, {line.split()[0] for line in lines if " " in line}


@pytest.mark.parametrize(
    ("name", "old", "new", "whose", "what"),
    [
        ("snippets/part/two.py", "\nword", "\nx = 1\nword", {TWO, CUDA}, ()),
        ("gallery/three.py", "\nimport", "\nx = 1\nimport", {THREE}, ()),
        ("tests/helpers/of_one.py", "import", "x = 1\nimport", {ONE}, ()),
        ("docs/part/one.md", "One", "Two", (), ()),
        # The settings of pytest count, and no others.
        ("pyproject.toml", "true", "false", ALL, ["settings"]),
        ("pyproject.toml", "strict", "addopts", ALL, ["settings"]),
        ("pyproject.toml", "[tool.ruff]", "[tool.mypy]", (), ()),
        # A file that is not Python has a fingerprint, too.
        ("tests/part/test_one.py", "def ", "de f ", {ONE}, ()),
    ],
)
def test_a_file_counts_for_the_modules_behind_which_it_stands(
    project, name, old, new, whose, what
):
    before = made(project)
    path = project / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))

    assert changed(made(project), before) == ({*whose}, {*what})


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Return a function that installs a distribution of a version."""
    monkeypatch.syspath_prepend(tmp_path / "site")

    def forget():
        for each in ("_distributions", "_plugins", "_version"):
            getattr(surroundings, each).cache_clear()

    def install(name, version, needs="", modules="", points=""):
        folder = tmp_path / "site" / f"{name.replace('-', '_')}.dist-info"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "METADATA").write_text(
            f"Name: {name}\nVersion: {version}\n"
            + (f"Requires-Dist: {needs}\n" if needs else "")
        )
        (folder / "top_level.txt").write_text(modules or name)
        (folder / "entry_points.txt").write_text(points)
        forget()

    yield install
    forget()


def test_a_library_that_a_test_imports_counts_with_what_it_needs(
    project, install
):
    install("fake-distribution", "1", needs="needed>=0", modules="fake")
    install("needed", "1")
    first = made(project)
    install("fake-distribution", "2", needs="needed>=0", modules="fake")
    second = made(project)
    install("needed", "2")
    third = made(project)
    install("unused", "1")

    assert changed(second, first) == ({ONE}, {"fake-distribution"})
    assert changed(third, second) == ({ONE}, {"needed"})
    assert made(project) == third

    snippet = project / "snippets/part/two.py"  # which imports it as well
    snippet.write_text(snippet.read_text() + "import fake\n")
    before = made(project)
    install("fake-distribution", "3", modules="fake")
    assert changed(made(project), before)[0] == {ONE, TWO, CUDA}


def test_the_version_of_python_counts_and_so_does_a_plugin(
    project, install, monkeypatch
):
    before = made(project)
    install("fake-plugin", "1", points="[pytest11]\nfake = fake_plugin\n")
    monkeypatch.setattr(
        surroundings.platform, "python_version", lambda: "4.0.1"
    )

    assert changed(made(project), before) == (ALL, {"plugins", "Python"})


@pytest.mark.parametrize(
    ("name", "whose"),
    [
        ("CUDA_VISIBLE_DEVICES", ALL),
        ("FAKE", {ONE}),
        ("OMP_NUM_THREADS", ALL),
        ("UNUSED", set()),
    ],
)
def test_an_environment_variable_counts_that_something_reads(
    project, monkeypatch, name, whose
):
    monkeypatch.delenv(name, raising=False)
    before = made(project)
    monkeypatch.setenv(name, "7")
    now = made(project)
    monkeypatch.delenv(name)

    assert changed(now, before) == (whose, {f"${name}"} if whose else set())
    assert made(project) == before


def test_the_device_counts(project, monkeypatch, tmp_path):
    monkeypatch.setattr(environment, "_GPUS", tmp_path / "gpus")
    monkeypatch.setenv("PATH", "")
    before = made(project)
    (tmp_path / "gpus/0").mkdir(parents=True)
    (tmp_path / "gpus/0/information").write_text("Model: GPU 9\nIRQ: 1\n")
    now = made(project)
    (tmp_path / "gpus/0/information").write_text("Model: GPU 9\nIRQ: 2\n")

    assert changed(now, before) == (ALL, {"device"})
    assert made(project) == now


def test_the_test_of_cuda_cells_depends_on_new_ones_too(project):
    before = made(project)
    add_device(project / "snippets/part/one.py")

    assert changed(made(project), before)[0] == {CUDA}


def test_a_module_without_a_distribution_counts_by_its_content(
    project, install, tmp_path
):
    install("other", "1")
    module = tmp_path / "site/fake.py"
    module.write_text("word = 1\n")
    before = made(project)
    module.write_text("word = 2\n")
    surroundings._version.cache_clear()

    assert changed(made(project), before) == ({ONE}, {"fake"})


def test_a_file_with_settings_of_pytest_counts_for_all(project):
    before = made(project)
    (project / "pytest.ini").write_text("[pytest]\naddopts = -k one\n")

    assert changed(made(project), before) == (ALL, {"settings"})
