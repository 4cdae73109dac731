"""All that the guides for contributors name is there."""

import re
from importlib.util import find_spec

import pytest

from extensions.core import markdown
from extensions.core.files import text_of
from extensions.core.topics import ROOT

GUIDES = [
    "README.md",
    "CONTRIBUTING.md",
    "DEVELOPING.md",
    "evidence/README.md",
]
TEXTS = {name: text_of(ROOT / name) for name in GUIDES}
DEVELOPING = TEXTS["DEVELOPING.md"]
QUESTIONS = {
    section.partition("\n")[0]: section
    for section in DEVELOPING.split("\n### ")[1:]
}
NOXFILE = text_of(ROOT / "noxfile.py")
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1\n", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([\w-]+))?\)")
# A path, or the name of a file.
NAMED = re.compile(r"[\w<>*.-]*(/[\w<>*.-]*)+|[\w*-]+\.(py|html|md|toml)")
# What an ordinary build or run writes, and an example of an address.
WRITTEN = (".venv/", "build/", "docs/code/", "report.md", "owner/name/")
EXAMPLE = "tied_weights"  # of a topic, which the guide shows


@pytest.mark.parametrize("name", GUIDES)
def test_each_file_that_a_guide_names_is_there(name):
    folders = [ROOT, (ROOT / name).parent]
    missing = []
    for span in SPAN.findall(FENCE.sub("", TEXTS[name])):
        pattern = re.sub(r"<[a-z]+>", "*", span).strip("/")
        if NAMED.fullmatch(span) and not (
            span.startswith(WRITTEN)
            or EXAMPLE in span
            or any((ROOT / "extensions").rglob(pattern))
            or any(any(each.glob(pattern)) for each in folders)
            or any((each / f"docs/{span}.md").exists() for each in folders)
        ):
            missing.append(span)

    assert missing == []


@pytest.mark.parametrize("name", [*GUIDES, "noxfile.py"])
def test_each_command_calls_what_is_there(name):
    text = text_of(ROOT / name)
    sessions = re.findall(r"^@nox.*\ndef (\w+)", NOXFILE, re.MULTILINE)
    named = re.findall(r'"((?:extensions|tools)\.[\w.]+)"', text)

    assert {*re.findall(r"\bnox -s (\w+)", text)} <= {*sessions}
    for module in named + re.findall(r"python3? -m ([\w.]+)", text):
        assert find_spec(module), module


@pytest.mark.parametrize("name", GUIDES)
def test_each_link_of_a_guide_leads_somewhere(name):
    for target, place in LINK.findall(FENCE.sub("", TEXTS[name])):
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), target
        if place:
            headings = re.findall(r"^#+ (.+)$", text_of(path).lower(), re.M)
            places = [re.sub(r"[^\w -]", "", each) for each in headings]
            assert place.replace("-", " ") in places, place


def test_the_readme_fits_on_a_screen_and_has_the_two_commands():
    text = TEXTS["README.md"]
    lines = re.findall("^python3 -m venv .*", text, re.MULTILINE)

    assert text.count("\n") <= 50
    assert [line.partition(".venv/bin/nox")[2] for line in lines] == [
        " -s docs",
        "",
    ]


def test_each_package_is_in_the_table():
    rows = re.findall(r"^\| `extensions/(\w+)/`", DEVELOPING, re.MULTILINE)
    packages = (ROOT / "extensions").glob("*/__init__.py")

    assert sorted(rows) == sorted(path.parent.name for path in packages)


@pytest.mark.parametrize("question", QUESTIONS)
def test_an_answer_names_at_most_three_files_and_what_is_in_them(question):
    answers = re.findall(r"^- `([^`]+)`: (.*)$", QUESTIONS[question], re.M)

    assert 1 <= len(answers) <= 3
    for path, said in answers:
        text = text_of(ROOT / path)
        for name in re.findall(r"`(\w+)`", said):
            defined = rf"^ *(class |def )?{name}\b[^.\n]*[(:=]"
            assert re.search(defined, text, re.M), f"{path}: {name}"


def test_the_directive_of_the_guide_works(house, build, monkeypatch):
    [module] = re.findall(r'```python\n(""".*?)\n```\n', DEVELOPING, re.DOTALL)
    [line] = re.findall(r'`("mermaid": Meaning\(.*?)`', DEVELOPING)
    [script] = re.findall(r"`(app.add_js_file\(.*?\))`", DEVELOPING)
    setup = (
        "def setup(app):\n"
        '    app.add_directive("mermaid", MermaidDirective)\n'
        f"    {script}\n"
    )
    added = {
        "mermaid.py": f"{module}\n\n\n{setup}",
        "docs/conf.py": "extensions += ['mermaid']\n",
        "docs/part/one.md": "\n```{mermaid}\na --> b\n```\n",
    }
    for name, text in added.items():
        with (house / name).open("a") as file:
            file.write(text)
    meaning = eval(f"{{{line}}}", vars(markdown))
    monkeypatch.syspath_prepend(house)
    for name in meaning:
        monkeypatch.setitem(markdown.DIRECTIVES, name, meaning[name])

    app = build()

    assert app.warning.getvalue() == ""
    page = (app.outdir / "part/one.html").read_text()
    assert '<pre class="mermaid">a --&gt; b</pre>' in page
    assert "mermaid.js" in page
    assert "~~~mermaid\na --> b" in (app.outdir / "part/one.md").read_text()
