"""Run ``nox`` for all checks; ``nox --list`` shows what else there is."""

import hashlib
import os
import shlex
import shutil
import sys
from pathlib import Path

import nox
from nox.command import CommandFailed

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "uv|venv"
nox.options.reuse_existing_virtualenvs = True
nox.options.sessions = ["lint", "tests"]

PYPROJECT = nox.project.load_toml("pyproject.toml")
LOCKED = ["nox", "torch-needs", "lint", "types", "tests", "browser", "lock"]
# One environment for all that needs torch: it takes a minute and 1.9 GB.
TORCH = Path(".nox/torch").resolve()
UV = shutil.which("uv")

HTML = "build/html"
# What a site that is published knows, in a build that only tries it.
PUBLISHED = {
    "PROVEN_PYTORCH_URL": "https://example.org/guide/",
    "PROVEN_PYTORCH_NOTEBOOKS": "example/guide/blob/notebooks",
    "PROVEN_PYTORCH_REPOSITORY": "https://example.org/example/guide",
}


def python_of(environment: Path) -> str:
    """Return the Python of an environment."""
    folder = "Scripts" if sys.platform == "win32" else "bin"
    return str(environment / folder / "python")


PYTHON = python_of(TORCH)
TEST_CLAIMS = [PYTHON, "-m", "extensions.evidence.test_claims"]
SOME_FAILED = 3  # how that ends, and recording, if all was tested
RECORD = [PYTHON, "-m", "extensions.evidence.record"]
CANARY = ["python", "-m", "tools.canary"]
MEASURE = [PYTHON, "-m", "extensions.measurements.measure"]
# The validator of the W3C, as npm has it.
VALIDATOR = "vnu-jar@26.9.27"
VALIDATOR_HASH = (
    "5970d3ffca91a627cf0965e5d91bb2e4242307c29292998de0b419d6a901b2b7"
)
OTHER_TORCHES = ["2.6", "2.9", "2.12", "newest"]
# Before the first of those: on each side of each change, with its NumPy.
OLDER_TORCHES = {"1.13": "numpy<2", "2.3": "numpy<3", "2.5": "numpy<3"}
OTHER_TESTS = [
    "tests/extensions",
    "tests/test_cheat_sheet.py",
    "tests/test_course.py",
    "tests/test_course_scripts.py",
    "tests/test_house.py",
    "tests/test_locks.py",
]
# What a page shows, besides the pages themselves.
WATCHED = [
    "build/evidence",
    "evidence",
    "extensions",
    "gallery",
    "measurements",
    "snippets",
    "tests",
]
# What the build writes, and what no page shows.
NOT_WATCHED = ["docs/code", "docs/gallery", "tests/extensions"]
# Compiled modules, caches, locks, unfinished files, what editors leave.
PASSING = r"/__pycache__/|/\.[^/]*$|\.pickle$|~$"
STRICT = ["--fail-on-warning", "--keep-going", "--nitpicky", "--jobs=2"]

# Nothing is compiled when it is installed: of 15,000 modules, a quarter are
# imported. To import torch takes seconds until that is kept.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What pip is told about packages, uv is told as well, and asks all of them.
for pip, uv in {
    "PIP_EXTRA_INDEX_URL": "UV_INDEX",
    "PIP_FIND_LINKS": "UV_FIND_LINKS",
    "PIP_INDEX_URL": "UV_DEFAULT_INDEX",
}.items():
    if pip in os.environ:
        os.environ.setdefault(uv, os.environ[pip])
        os.environ.setdefault("UV_INDEX_STRATEGY", "unsafe-best-match")


def install(session: nox.Session, *groups: str) -> None:
    """Install the locked packages of some groups, and nothing else."""
    files = [f"--requirement=requirements/{group}.txt" for group in groups]
    session.install("--require-hashes", *files)


def with_torch(session: nox.Session) -> None:
    """Bring the environment that has torch up to date.

    torch itself has no hash in a lock, because its builds differ by machine.
    What every build needs is installed first, with hashes; what a build for
    CUDA needs besides is limited by ``requirements/torch.txt``.
    """
    torch = nox.project.dependency_groups(PYPROJECT, "torch")
    files = [f"requirements/{name}.txt" for name in ("torch-needs", "tests")]
    limits = "requirements/torch.txt"
    texts = [Path(each).read_text("utf-8") for each in (*files, limits)]
    pinned = "\n".join([*torch, *texts])
    done = TORCH / "installed"
    before = done.read_text("utf-8") if done.exists() else ""
    if before != pinned or not Path(PYTHON).exists():  # its Python may be gone
        needs, tests = (["--require-hashes", "-r", each] for each in files)
        locks = [needs, [f"--constraint={limits}", *torch], tests]
        make_environment(session, TORCH, *locks)
        done.write_text(pinned, "utf-8")


def make_environment(
    session: nox.Session, folder: Path, *installed: list[str]
) -> str:
    """Install some things into an environment; return its Python."""
    python = python_of(folder)
    if UV:
        make = [UV, "venv", "--seed", f"--python={sys.executable}"]
        pip = [UV, "pip", "install", f"--python={python}"]
    else:
        make = [sys.executable, "-m", "venv"]
        pip = [python, "-m", "pip", "install", "--no-compile"]
    if not Path(python).exists():
        session.run(*make, str(folder), external=True)
    for each in installed:
        session.run(*pip, *each, external=True)
    return python


def version_of_torch(session: nox.Session, python: str) -> str:
    """Return which torch a Python has, without its build."""
    code = "import torch; print(torch.__version__.partition('+')[0])"
    found = session.run(python, "-c", code, silent=True, external=True)
    return str(found).strip()


def build(session: nox.Session, html: str, *options: str, **env: str) -> None:
    """Build the site in a folder."""
    doctrees = Path(html).parent / "doctrees"
    places = ["--conf-dir=.", f"--doctree-dir={doctrees}", "docs", html]
    sphinx = [PYTHON, "-m", "sphinx", *STRICT, *places, *options]
    try:
        session.run(*sphinx, env=env, external=True)
    except CommandFailed:
        # Sphinx warns of a page when it reads it: the next build reads all.
        shutil.rmtree(doctrees, ignore_errors=True)
        raise


# -- Every day ----------------------------------------------------------------


@nox.session(default=False, venv_backend="none")
def docs(session: nox.Session) -> None:
    """Build the site in build/html; test the claims that have changed."""
    with_torch(session)
    # A claim that fails does not stop here: the site shows it in red, and
    # Sphinx reports it at its line and fails.
    codes = [0, SOME_FAILED]
    session.run(*TEST_CLAIMS, success_codes=codes, external=True)
    build(session, HTML, *session.posargs)
    session.log(f"Open {Path(HTML, 'index.html').resolve().as_uri()}")


@nox.session(default=False, venv_backend="none")
def live(session: nox.Session) -> None:
    """Serve the site, and update it and its claims each time you save."""
    with_torch(session)
    session.run(*TEST_CLAIMS, success_codes=[0, SOME_FAILED], external=True)
    # A page that is saved is shown first; what the save made stale is tested
    # then, and where that changes a result, the site is built once more.
    watch = [f"--watch={each}" for each in WATCHED]
    ignore = [f"--ignore={each}" for each in NOT_WATCHED]
    test = f"--post-build={shlex.join(TEST_CLAIMS)}"
    options = [*watch, *ignore, f"--re-ignore={PASSING}", test]
    places = ["--conf-dir=.", "--doctree-dir=build/doctrees", "docs", HTML]
    serve = [PYTHON, "-m", "sphinx_autobuild", *options, *places]
    session.run(*serve, *session.posargs, external=True)


@nox.session(default=False, venv_backend="none")
def new(session: nox.Session) -> None:
    """Start a page with its program and tests: -- models/tied_weights."""
    session.run(sys.executable, "-m", "extensions.new_topic", *session.posargs)


# -- Before a change goes in --------------------------------------------------


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and spelling of all files, types and imports of ours."""
    install(session, "lint", "types")
    session.run("ruff", "check")
    session.run("ruff", "format", "--check")
    session.run("codespell")
    session.run("zizmor", "--offline", "--quiet", ".github")
    session.run("mypy")
    session.run("lint-imports", "--no-cache")


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Test every claim, the extensions and the rules.

    What this build has tested itself counts until it changes; recorded results
    do not. With arguments, such as ``-- -k detach``, pytest runs only what
    they select and no result is kept.
    """
    with_torch(session)
    command = [*TEST_CLAIMS, "--all", "--again", "--also", *OTHER_TESTS]
    if session.posargs:
        command = [PYTHON, "-m", "pytest", *session.posargs]
    session.run(*command, external=True)


@nox.session(default=False, venv_backend="none")
def record(session: nox.Session) -> None:
    """Renew the recorded results of what has changed, for the next clone.

    With ``-- --check``, only say which. With a folder, such as
    ``-- evidence/<machine>``, all tests and measurements of this machine are
    recorded there.
    """
    with_torch(session)
    if "--check" in session.posargs:
        session.run(*RECORD, "--check", external=True)
    elif session.posargs:
        command = [*RECORD, *session.posargs]
        session.run(*command, success_codes=[0, SOME_FAILED], external=True)
        session.run(*MEASURE, *session.posargs, external=True)
    else:
        session.run(*TEST_CLAIMS, external=True)
        session.run(*RECORD, external=True)


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Use the built site as its readers do, in Chromium: -- --all pages.

    Its HTML goes through the validator, and its notebooks run. Without
    ``--all``, that is a part of the pages, and the notebooks that have changed
    since all have run.
    """
    use_in_browser(session, *session.posargs)


# -- Each night, and before a release -----------------------------------------


@nox.session(default=False)
def release(session: nox.Session) -> None:
    """Check everything that the checks of a change leave out.

    That is each page in a browser, each notebook and script, the claims in
    reverse order, since a test may leave something behind that changes what
    the next one finds, and the site as it is when it is published. At the end,
    the pages are noted as checked.
    """
    docs(session)
    use_in_browser(session, "--all")
    without = [f"--ignore={each}" for each in OTHER_TESTS]
    order = ["--reverse", "--numprocesses=auto", "--dist=loadfile"]
    session.run(PYTHON, "-m", "pytest", *without, *order, external=True)
    build(session, "build/published/html", **PUBLISHED)
    session.run(PYTHON, "-m", "tools.checked_pages", external=True)


@nox.session(default=False, venv_backend="none")
def mutants(session: nox.Session) -> None:
    """List the changes of a program that no test notices: -- data/loading.

    Without arguments, all programs are changed; with ``--since HEAD^``, those
    that differ from a commit.
    """
    with_torch(session)
    find = [PYTHON, "-m", "tools.mutants", *session.posargs]
    session.run(*find, external=True)


@nox.session(default=False, venv_backend="none")
def versions(session: nox.Session) -> None:
    """Record the tests of all claims on other versions of torch: -- 2.6 2.9.

    Those before 2.6 are asked only for the claims that became true by then;
    the locks do not fit them, and they need Python 3.11. Each environment is
    removed again, since a torch for CUDA takes gigabytes.
    """
    for torch in session.posargs or OTHER_TORCHES:
        name = "torch" if torch == "newest" else f"torch=={torch}.*"
        tests, options = (
            ["--require-hashes", "-r", "requirements/tests.txt"],
            [],
        )
        if torch in OLDER_TORCHES:
            tests = [OLDER_TORCHES[torch], "filelock", "pytest>=9,<10"]
            options = ["--changed-by", OTHER_TORCHES[0]]
        folder = Path(".nox/other-torch").resolve()
        python = make_environment(session, folder, [name], tests)
        place = f"evidence/cpu-torch-{version_of_torch(session, python)}"
        # A claim that fails there is part of what is recorded.
        record = [python, *RECORD[1:], place, *options]
        session.run(*record, success_codes=[0, SOME_FAILED], external=True)
        shutil.rmtree(folder)


@nox.session(default=False, venv_backend="none")
def pretrained(session: nox.Session) -> None:
    """Record the pages on models of others, which need a newer torch.

    What their programs give and what their tests say is kept in evidence/; a
    build without their libraries shows that.
    """
    folder = Path(".nox/pretrained").resolve()
    group = nox.project.dependency_groups(PYPROJECT, "pretrained")
    models = ["--constraint=requirements/pretrained.txt", *group]
    tests = ["--require-hashes", "-r", "requirements/tests.txt"]
    python = make_environment(session, folder, models, tests)
    programs = [python, "-m", "tools.record_programs"]
    said = str(session.run(*programs, silent=True, external=True))
    modules = [each for each in said.split() if each.startswith("tests/")]
    place = (
        f"evidence/cpu-pretrained-torch-{version_of_torch(session, python)}"
    )
    record = [python, *RECORD[1:], place, *modules]
    session.run(*record, success_codes=[0, SOME_FAILED], external=True)


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


@nox.session(default=False)
def lock(session: nox.Session) -> None:
    """Pin the versions in requirements/ again; -- --upgrade renews them."""
    install(session, "lock")
    for group in LOCKED:
        compile_lock(session, group, "--generate-hashes")
    # Only to constrain: pip takes no constraint with a hash for a torch
    # without one.
    compile_lock(session, "torch", "--no-emit-package=torch")
    compile_lock(session, "pretrained", "--constraint=requirements/tests.txt")


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


def use_in_browser(session: nox.Session, *options: str) -> None:
    """Test the built site in a browser, with the validator if there is one."""
    with_torch(session)
    install(session, "browser")
    if "GITHUB_ACTIONS" in os.environ:  # elsewhere, a word says how
        session.run("playwright", "install", "--with-deps", "chromium")
    # The tests of claims, whose conftest.py needs torch, stand beside them.
    place = ["tests/browser", "--confcutdir=tests/browser"]
    pytest = ["pytest", *place, "--numprocesses=2", *options]
    validator = fetch_validator(session)
    env = {"VALIDATOR": validator, "PYTHON_WITH_TORCH": PYTHON}
    session.run(*pytest, env=env)


def fetch_validator(session: nox.Session) -> str:
    """Return where the W3C's validator is; '' without Java and npm."""
    if missing := [each for each in ("java", "npm") if not shutil.which(each)]:
        session.warn(f"no HTML is checked: {missing[0]} is not installed")
        return ""
    folder = Path(session.create_tmp())
    packed = folder / f"{VALIDATOR.replace('@', '-')}.tgz"
    if not packed.exists():
        pack = ["npm", "pack", "--silent", VALIDATOR]
        done = [*pack, f"--pack-destination={folder}"]
        session.run(*done, success_codes=range(256), external=True)
    if not packed.exists():
        session.warn("no HTML is checked: npm did not fetch the validator")
        return ""
    if hashlib.sha256(packed.read_bytes()).hexdigest() != VALIDATOR_HASH:
        session.error(f"{packed} is not the validator that is known here")
    shutil.unpack_archive(packed, folder)
    return str(folder.resolve() / "package/build/dist/vnu.jar")
