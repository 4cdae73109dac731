"""All that the guides for contributors name is there."""

import ast
import re
import shlex
from importlib.util import find_spec

import pytest

from extensions.core import directives
from extensions.core.reading import python_of, text_of
from extensions.core.topics import ROOT
from extensions.new_topic.__main__ import EXAMPLE

GUIDES = [
    "README.md",
    "CONTRIBUTING.md",
    "DEVELOPING.md",
    "evidence/README.md",
]
TEXTS = {name: text_of(ROOT / name) for name in GUIDES}
DEVELOPING = TEXTS["DEVELOPING.md"]
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1\n", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
# A path, the name of a file, or a module of ours.
NAMED = re.compile(
    r"[\w<>*.-]*(/[\w<>*.-]*)+|[\w*-]+\.[a-z]{2,4}|extensions(\.\w+)+"
)
PLACE = re.compile(r"<[a-z]+>")
COMMANDS = (".venv/bin/nox", "nox ", "python -m", "python3 -m")
# What an ordinary build or run writes.
WRITTEN = ("build/", "docs/code/", "report.md")
SESSIONS = {
    node.name
    for node in python_of(ROOT / "noxfile.py").body
    if isinstance(node, ast.FunctionDef) and node.decorator_list
}
SOURCES = [
    path
    for folder in ("extensions", "tests", "docs", ".github")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".css", ".html", ".md", ".py", ".toml", ".yml"}
    if not path.is_relative_to(ROOT / "docs/code")
]
SOURCES += [ROOT / "conf.py", ROOT / "noxfile.py", ROOT / "pyproject.toml"]


@pytest.fixture(scope="module")
def sources():
    """All that is written in the project, but for the guides."""
    return "\n".join(
        text_of(path) for path in SOURCES if path.name != "test_guides.py"
    )


def spans(name):
    """Return the code in the sentences of a guide."""
    return SPAN.findall(FENCE.sub("", TEXTS[name]))


def commands(name):
    """Return the commands of a guide, in its sentences and its blocks."""
    found = [each for each in spans(name) if each.startswith(COMMANDS)]
    for _, language, block in FENCE.findall(TEXTS[name]):
        if language == "sh":
            found += [
                part
                for line in block.splitlines()
                for part in line.split("&&")
            ]
    return [each.strip() for each in found]


def slug(heading):
    """Return the address that GitHub gives a heading."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def exists(span, sources):
    """Whether what a guide names in code is there."""
    pattern = PLACE.sub("*", span)
    module = span.removeprefix("extensions.").replace(".", "/")
    return (
        span.startswith(WRITTEN)
        or any(ROOT.glob(pattern.strip("/")))
        or any(EXAMPLE.root.glob(pattern.strip("/")))
        or any((ROOT / "extensions").rglob(pattern.strip("/")))
        or (ROOT / f"docs/{span}.md").exists()
        or (ROOT / f"extensions/{module}.py").exists()
        or span in sources
    )


@pytest.mark.parametrize("name", GUIDES)
def test_each_path_and_module_that_a_guide_names_is_there(name, sources):
    named = [span for span in spans(name) if NAMED.fullmatch(span)]

    assert [each for each in named if not exists(each, sources)] == []


@pytest.mark.parametrize("name", GUIDES)
def test_each_word_of_code_in_a_guide_is_in_the_sources(name, sources):
    known = set(re.findall(r"\w+", sources))
    words = [
        word
        for span in spans(name)
        if not (span.startswith(COMMANDS) or NAMED.fullmatch(span))
        for word in re.findall(r"[a-zA-Z_]\w*", PLACE.sub("", span))
    ]

    assert [each for each in words if each not in known] == []


@pytest.mark.parametrize("name", GUIDES)
def test_each_command_of_a_guide_calls_what_is_there(name):
    for command in commands(name):
        program, *words = shlex.split(command)
        if program.endswith("nox"):
            _, _, called = " ".join(words).partition("-s ")
            named, _, _ = called.partition(" -- ")
            assert words == [] or named or words == ["--list"], command
            assert set(named.split()) <= SESSIONS, command
        elif program.startswith("python"):
            assert words[0] == "-m", command
            assert find_spec(words[1]), command
        else:
            assert program == ".venv/bin/pip", command


@pytest.mark.parametrize("name", GUIDES)
def test_each_link_of_a_guide_leads_somewhere(name):
    for target, place in LINK.findall(FENCE.sub("", TEXTS[name])):
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), target
        if place:
            assert place in map(slug, HEADING.findall(text_of(path))), place


def test_the_readme_fits_on_a_screen_and_has_the_two_commands():
    text = TEXTS["README.md"]
    lines = re.findall("^python3 -m venv .*", text, re.MULTILINE)

    assert text.count("\n") <= 50
    assert [line.partition(".venv/bin/nox")[2] for line in lines] == [
        " -s docs",
        "",
    ]


def test_the_guide_shows_the_example_of_a_new_page_as_it_is():
    shown = [block for _, _, block in FENCE.findall(TEXTS["CONTRIBUTING.md"])]

    for path in (EXAMPLE.page, EXAMPLE.snippet, EXAMPLE.tests):
        assert text_of(path) in shown


def test_each_session_has_words_that_tell_what_it_does():
    for node in python_of(ROOT / "noxfile.py").body:
        if isinstance(node, ast.FunctionDef) and node.decorator_list:
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            assert re.fullmatch(r"[A-Z].{20,70}\.", first), node.name


def test_each_module_that_a_session_runs_is_there():
    named = {
        node.value
        for node in ast.walk(python_of(ROOT / "noxfile.py"))
        if isinstance(node, ast.Constant)
        if str(node.value).startswith("extensions.")
    }

    assert [name for name in named if find_spec(name) is None] == []
    assert len(named) > 5


def test_each_package_is_in_the_table():
    rows = re.findall(r"^\| `extensions/(\w+)/`", TEXTS["DEVELOPING.md"], re.M)
    packages = (ROOT / "extensions").glob("*/__init__.py")

    assert sorted(rows) == sorted(path.parent.name for path in packages)


QUESTIONS = {
    section.partition("\n")[0]: section
    for section in TEXTS["DEVELOPING.md"].split("\n### ")[1:]
}


def test_there_are_six_questions():
    assert len(QUESTIONS) == 6


def names_in(path):
    """Return what a module, and its classes, define."""
    if path.suffix != ".py":
        return set()
    found = set()
    for node in ast.walk(python_of(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign | ast.Assign):
            targets = getattr(node, "targets", [getattr(node, "target", 0)])
            found |= {
                each.id for each in targets if isinstance(each, ast.Name)
            }
    return found


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_names_at_most_three_files_and_what_is_in_them(question):
    answers = re.findall(r"^- `([^`]+)`: (.*)$", QUESTIONS[question], re.M)

    assert 1 <= len(answers) <= 3
    for path, said in answers:
        defined = names_in(ROOT / path)
        for name in SPAN.findall(said):
            if re.fullmatch(r"\w+", name):
                assert name in defined, f"{path}: {name}"


def test_the_directive_of_the_guide_works(house, build, monkeypatch):
    [module] = re.findall(r'```python\n(""".*?)\n```\n', DEVELOPING, re.DOTALL)
    (house / "mermaid.py").write_text(f"{module}\n\nsetup = setup_mermaid\n")
    with (house / "docs/conf.py").open("a") as conf:
        conf.write("extensions += ['mermaid']\n")
    with (house / "docs/part/one.md").open("a") as page:
        page.write("\n```{mermaid}\na --> b\n```\n")
    [line] = re.findall(r'`("mermaid": Meaning\(.*?)`', DEVELOPING)
    monkeypatch.syspath_prepend(house)
    monkeypatch.setitem(
        directives.DIRECTIVES,
        "mermaid",
        eval(f"{{{line}}}", vars(directives))["mermaid"],
    )

    app = build()

    assert app.warning.getvalue() == ""
    page = (app.outdir / "part/one.html").read_text()
    assert '<pre class="mermaid">a --&gt; b</pre>' in page
    assert "mermaid.js" in page
    assert "```mermaid\na --> b" in (app.outdir / "part/one.md").read_text()
