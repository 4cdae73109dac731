"""The packages stand on floors: each imports only from those below it."""

import ast
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module

import pytest

from extensions.core.reading import python_of, text_of
from extensions.core.topics import ROOT

# From below; packages that share a floor do not know each other.
FLOORS = (
    ("core",),
    ("build",),
    ("programs",),
    ("evidence",),
    ("prose", "new_topic"),
    ("claims", "mutants"),
    ("measurements",),
    ("notebooks",),
    ("pages",),
    ("web",),
    ("lint",),
    ("live",),  # a module, which starts what others do
)
FLOOR = {name: at for at, names in enumerate(FLOORS) for name in names}
# All that these hold is for Sphinx; elsewhere, what is called sphinx_*.
KNOW_SPHINX = {"build", "pages", "web"}
FOLDER = ROOT / "extensions"
MODULES = [*sorted(FOLDER.glob("*/*.py")), FOLDER / "live.py"]
PACKAGES = sorted({path.parent.name for path in FOLDER.glob("*/__init__.py")})


def name_of(path):
    """Return the name of a module, without that of all extensions."""
    path = path.relative_to(FOLDER).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


def imported(nodes):
    """Yield the modules that some statements import, and at which line."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((each.name, node.lineno) for each in node.names)
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                path = ROOT / f"{whole.replace('.', '/')}"
                is_module = path.with_suffix(".py").exists() or path.is_dir()
                yield (whole if is_module else node.module), node.lineno


@cache
def all_imported(path):
    """Return the modules that a module imports anywhere, with their lines."""
    return [*imported(ast.walk(python_of(path)))]


def knows_sphinx(name):
    """Whether a module is one of Sphinx, or of ours that need it."""
    root, *parts = name.split(".")
    if root != "extensions":
        return root in {"sphinx", "docutils"}
    return parts[0] in KNOW_SPHINX or parts[-1].startswith("sphinx_")


PLAIN = [
    path for path in MODULES if not knows_sphinx(f"extensions.{name_of(path)}")
]


@pytest.mark.parametrize("path", PLAIN, ids=name_of)
def test_only_modules_that_say_so_know_sphinx(path):
    tree = python_of(path)
    # A setup() imports what it needs, once Sphinx has called it.
    nodes = tree.body if path.name == "__init__.py" else ast.walk(tree)

    assert [
        f"{path}:{line}: {name}"
        for name, line in imported(nodes)
        if knows_sphinx(name)
    ] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_imports_only_from_packages_below_its_own(path):
    own, *_ = name_of(path).split(".")

    for name, line in all_imported(path):
        _, other, *_ = f"{name}..".split(".")
        if name.startswith("extensions.") and other != own:
            assert FLOOR[other] < FLOOR[own], f"{path}:{line}: {name}"


def test_no_module_imports_itself_through_others():
    sorter = TopologicalSorter(
        {
            f"extensions.{name_of(path)}": {
                name for name, _ in imported(python_of(path).body)
            }
            for path in MODULES
        }
    )

    sorter.prepare()  # raises an error that names a circle


def test_no_module_is_long():
    lines = {path: text_of(path).count("\n") for path in MODULES}

    assert set(PACKAGES) <= set(FLOOR)
    assert [path for path, number in lines.items() if number > 250] == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_explains_itself_and_says_what_it_offers(name):
    package = import_module(f"extensions.{name}")
    offered = getattr(package, "__all__", None)
    users = {
        path.parent.name
        for path in MODULES
        for module, _ in all_imported(path)
        if module.startswith(f"extensions.{name}.")
    }

    assert package.__doc__.count("\n") > 2
    assert offered is None or all(hasattr(package, each) for each in offered)
    if len(users - {name, "lint"}) > 1:
        assert 3 <= len(offered or []) <= 8, offered


def test_the_site_lists_nine_extensions_at_most():
    [listed] = [
        node.value
        for node in python_of(ROOT / "conf.py").body
        if isinstance(node, ast.Assign)
        and ast.unparse(node.targets[0]) == "extensions"
    ]
    ours = [
        name
        for name in ast.literal_eval(listed)
        if name.startswith("extensions.")
    ]

    assert ours
    assert len(ours) <= 9
