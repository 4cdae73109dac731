"""Run ``nox`` for all checks; ``nox --list`` shows what else there is."""

import hashlib
import os
import shutil
import sys
from pathlib import Path

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "types", "tests"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
LOCKED = [
    "nox",
    "torch-needs",
    "lint",
    "types",
    "tests",
    "browser",
    "live",
    "lock",
]

HTML = "build/html"
# What a site that is published knows, in a build that only tries it.
PUBLISHED = {
    "PROVEN_PYTORCH_URL": "https://example.org/guide/",
    "PROVEN_PYTORCH_NOTEBOOKS": "example/guide/blob/notebooks",
    "PROVEN_PYTORCH_REPOSITORY": "https://example.org/example/guide",
}
TEST_CLAIMS = ["python", "-m", "extensions.evidence.test_claims"]
MEASURE = ["python", "-m", "extensions.measurements.measure"]
RECORD = ["python", "-m", "extensions.evidence.record"]
CANARY = ["python", "-m", "extensions.claims.canary"]
# The validator of the W3C, as npm has it.
VALIDATOR = "vnu-jar@26.9.27"
VALIDATOR_HASH = (
    "5970d3ffca91a627cf0965e5d91bb2e4242307c29292998de0b419d6a901b2b7"
)
OTHER_TORCHES = ["2.6", "2.9", "2.12", "newest"]
# Before the first of those: on each side of each change, with its NumPy.
OLDER_TORCHES = {"1.13": "numpy<2", "2.3": "numpy<3", "2.5": "numpy<3"}
CHANGED = ["--changed-by", OTHER_TORCHES[0]]
OTHER_TESTS = [
    "tests/extensions",
    "tests/test_course.py",
    "tests/test_house.py",
    "tests/test_locks.py",
]
SPHINX = ["--conf-dir=.", "--doctree-dir=build/doctrees", "docs", HTML]
STRICT = ["--fail-on-warning", "--keep-going", "--nitpicky", "--jobs=2"]


def install(session: nox.Session, group: str) -> None:
    """Install the locked packages of a group, and nothing else."""
    session.install("--require-hashes", "-r", f"requirements/{group}.txt")


def install_torch(session: nox.Session) -> None:
    """Install torch, with every package that it needs pinned.

    torch itself has no hash in a lock, because its builds differ by machine.
    What every build needs is installed first, with hashes; what a build for
    CUDA needs besides is limited by ``requirements/torch.txt``.
    """
    install(session, "torch-needs")
    torch = nox.project.dependency_groups(PYPROJECT, "torch")
    session.install("--constraint=requirements/torch.txt", *torch)


# -- Every day ----------------------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Check the style and spelling of every file."""
    install(session, "lint")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("codespell")
    session.run("zizmor", "--offline", "--quiet", ".github")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of the extensions."""
    install(session, "types")
    session.run("mypy")


@nox.session
def tests(session: nox.Session) -> None:
    """Test the extensions, the rules, and each claim that has changed.

    With arguments, such as ``-- -k detach``, pytest runs only what they select
    and no result is kept.
    """
    install_torch(session)
    install(session, "tests")
    if session.posargs:
        session.run("pytest", *session.posargs)
    else:
        session.run(*TEST_CLAIMS, "--again", "--also", *OTHER_TESTS)


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """Build the site in build/html; test the claims that have changed."""
    install_torch(session)
    install(session, "tests")
    # A claim that fails does not stop here: the site shows it in red, and
    # Sphinx reports it at its line and fails.
    session.run(*TEST_CLAIMS, success_codes=[0, 1])
    session.run("sphinx-build", *STRICT, *SPHINX, *session.posargs)
    session.log(f"Open {Path(HTML, 'index.html').resolve().as_uri()}")


@nox.session(default=False)
def live(session: nox.Session) -> None:
    """Serve the site, and update it and its claims each time you save."""
    install_torch(session)
    install(session, "live")
    session.run(
        "python",
        "-m",
        "extensions.live",
        *SPHINX,
        *session.posargs,
    )


@nox.session(default=False, venv_backend="none")
def new(session: nox.Session) -> None:
    """Start a page with its program and tests: -- models/tied_weights."""
    session.run(sys.executable, "-m", "extensions.new_topic", *session.posargs)


# -- Before a release ---------------------------------------------------------


@nox.session(default=False)
def notebooks(session: nox.Session) -> None:
    """Run every script and notebook that the built site offers."""
    install_torch(session)
    install(session, "tests")
    session.run("python", "-m", "extensions.notebooks.run_downloads")


@nox.session(default=False)
def published(session: nox.Session) -> None:
    """Build the site in build/published, with all addresses set."""
    install_torch(session)
    install(session, "tests")
    places = ["--conf-dir=.", "--doctree-dir=build/published-doctrees"]
    sphinx = ["sphinx-build", *STRICT, *places, "docs", "build/published"]
    session.run(*sphinx, env=PUBLISHED)


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Use the built site in Chromium, as its readers do."""
    install(session, "browser")
    if "GITHUB_ACTIONS" in os.environ:  # elsewhere, a word says how
        session.run("playwright", "install", "--with-deps", "chromium")
    session.run("pytest", "browser", "--numprocesses=2", *session.posargs)


@nox.session(default=False, venv_backend="none")
def valid(session: nox.Session) -> None:
    """Check the HTML of the built site with the W3C's validator.

    This needs Java, and npm to download the validator. Without them, the
    session is skipped.
    """
    for tool, what in (("java", "runs"), ("npm", "fetches")):
        if shutil.which(tool) is None:
            session.skip(f"nothing is checked: {tool} {what} the validator")
    folder = Path(session.create_tmp())
    packed = folder / f"{VALIDATOR.replace('@', '-')}.tgz"
    if not packed.exists():
        target = f"--pack-destination={folder}"
        pack = ["npm", "pack", "--silent", VALIDATOR, target]
        session.run(*pack, success_codes=range(256))
        if not packed.exists():
            session.skip("nothing is checked: npm did not fetch the validator")
    if hashlib.sha256(packed.read_bytes()).hexdigest() != VALIDATOR_HASH:
        session.error(f"{packed} is not the validator that is known here")
    shutil.unpack_archive(packed, folder)
    jar = folder / "package/build/dist/vnu.jar"
    check = ["java", "-jar", str(jar), "--errors-only", "--skip-non-html"]
    session.run(*check, HTML)


@nox.session(default=False)
def backwards(session: nox.Session) -> None:
    """Test all claims in reverse order, so that none depends on another.

    A test may leave something behind, such as a program that ran under its
    settings, that changes what a later test finds. When several processes
    share the tests, the order is arbitrary.
    """
    install_torch(session)
    install(session, "tests")
    without = [f"--ignore={each}" for each in OTHER_TESTS]
    order = ["--reverse", "--numprocesses=auto", "--dist=loadfile"]
    session.run("pytest", *without, *order, *session.posargs)


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """List the changes of a program that no test notices: -- data/loading.

    Without arguments, all programs are changed; with ``--since HEAD^``, those
    that differ from a commit.
    """
    install_torch(session)
    install(session, "tests")
    session.run(
        "python",
        "-m",
        "extensions.mutants",
        *session.posargs,
    )


# -- Other machines, other versions of torch ----------------------------------


@nox.session(default=False)
def cuda(session: nox.Session) -> None:
    """Test the claims that need a GPU; fail if there is none."""
    install_torch(session)
    install(session, "tests")
    session.run("python", "-c", "import torch; torch.zeros(1, device='cuda')")
    session.run("pytest", "-m", "cuda", *session.posargs)


@nox.session(default=False)
def record(session: nox.Session) -> None:
    """Record tests and measurements of this machine: -- evidence/<machine>.

    With torch, pytest and NumPy alone, the two commands below do the same;
    claims whose program imports more are then not run.
    """
    install_torch(session)
    install(session, "tests")
    if not session.posargs:
        session.error("say where: nox -s record -- evidence/<machine>")
    session.run(*RECORD, *session.posargs, success_codes=[0, 1])
    session.run(*MEASURE, *session.posargs)


@nox.session(default=False)
def measure(session: nox.Session) -> None:
    """Record the measurements of this machine alone: -- evidence/<machine>."""
    install_torch(session)
    install(session, "tests")
    if not session.posargs:
        session.error("say where: nox -s measure -- evidence/<machine>")
    session.run(*MEASURE, *session.posargs)


@nox.session(default=False, reuse_venv=False)
@nox.parametrize("torch", OTHER_TORCHES)
def versions(session: nox.Session, torch: str) -> None:
    """Record the tests of all claims on other versions of torch.

    The newest version is recorded as well. The environment is removed again,
    since a torch for CUDA takes gigabytes.
    """
    session.install("torch" if torch == "newest" else f"torch=={torch}.*")
    install(session, "tests")
    code = "import torch; print(torch.__version__.partition('+')[0])"
    version = session.run("python", "-c", code, silent=True)
    folder = f"evidence/cpu-torch-{str(version).strip()}"
    # A claim that fails there is part of what is recorded.
    session.run(*RECORD, folder, *session.posargs, success_codes=[0, 1])
    shutil.rmtree(session.virtualenv.location)


@nox.session(default=False, reuse_venv=False, python="3.11")
@nox.parametrize("torch", list(OLDER_TORCHES))
def older(session: nox.Session, torch: str) -> None:
    """Record, on a torch before 2.6, the claims that became true by then.

    The locks do not fit such an old torch, and Python 3.11 is the newest that
    the oldest of these versions supports.
    """
    needs = [OLDER_TORCHES[torch], "filelock", "pytest>=9,<10"]
    session.install(f"torch=={torch}.*", *needs)
    code = "import torch; print(torch.__version__.partition('+')[0])"
    version = session.run("python", "-c", code, silent=True)
    folder = f"evidence/cpu-torch-{str(version).strip()}"
    session.run(*RECORD, folder, *CHANGED, success_codes=[0, 1])
    shutil.rmtree(session.virtualenv.location)


@nox.session(default=False)
def canary(session: nox.Session) -> None:
    """Report which claims a nightly torch makes false: -- report.md.

    What the tests need is installed first, at its locked version, so that
    only torch is a nightly build.
    """
    install(session, "torch-needs")
    install(session, "tests")
    index = os.environ.get("TORCH_NIGHTLY_INDEX")
    if not index:
        session.error("TORCH_NIGHTLY_INDEX says where nightly builds are")
    session.install("--pre", "--upgrade", f"--index-url={index}", "torch")
    session.run(*CANARY, *session.posargs)


# -- Upkeep -------------------------------------------------------------------


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Pin the versions in requirements/ again; -- --upgrade renews them."""
    install(session, "lock")
    for group in LOCKED:
        compile_lock(session, group, "--generate-hashes")
    # Only to constrain: pip takes no constraint with a hash for a torch
    # without one.
    compile_lock(session, "torch", "--no-emit-package=torch")


@nox.session(default=False)
def inventory(session: nox.Session) -> None:
    """Fetch the names that the documentation of torch lists."""
    install(session, "tests")
    session.run("python", "-m", "extensions.prose.sphinx_inventory")


def compile_lock(session: nox.Session, group: str, option: str) -> None:
    """Pin the versions of a group, for every machine."""
    session.run(
        "uv",
        "pip",
        "compile",
        "--quiet",
        "--universal",
        "--python-version=3.11",
        "--no-header",
        option,
        f"--group={group}",
        f"--output-file=requirements/{group}.txt",
        *session.posargs,
        "pyproject.toml",
    )
