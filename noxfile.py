"""Everything one does here: ``nox`` runs the gate, ``nox --list`` the rest."""

from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "types", "tests"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
HTML = "build/html"
EVIDENCE = "build/evidence/this-build/tests.xml"
STRICT = [
    "--fail-on-warning",
    "--keep-going",
    "--nitpicky",
]


def install(session: nox.Session, *groups: str) -> None:
    """Install torch first, pinned, and then what some groups name."""
    for group in groups:
        session.install(*nox.project.dependency_groups(PYPROJECT, group))


# -- The gate ----------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Check the form and the spelling of every file."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("codespell")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the extensions, of conf.py and of this file."""
    install(session, "torch", "types")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Check the claims, the rules of the house, and the extensions."""
    install(session, "torch", "tests")
    session.run("python", "-m", "pytest", *session.posargs)


@nox.session
def docs(session: nox.Session) -> None:
    """Test the claims, run every program, build the site: build/html."""
    install(session, "torch", "tests")
    # A claim that fails does not stop the build: the site shows it in red,
    # and the build reports it at the claim's line and fails.
    session.run(
        "python",
        "-m",
        "pytest",
        "--ignore=tests/extensions",
        f"--junitxml={EVIDENCE}",
        success_codes=[0, 1],
    )
    session.run(
        "sphinx-build",
        *STRICT,
        "--jobs=2",
        "--conf-dir=.",
        "--doctree-dir=build/doctrees",
        "docs",
        HTML,
        *session.posargs,
    )
    session.log(f"Open {Path(HTML, 'index.html').resolve().as_uri()}")
