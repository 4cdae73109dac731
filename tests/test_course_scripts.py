"""The two scripts of the course's project do what its page promises."""

import importlib.util
import re
import subprocess
import sys

import pytest

from extensions.core.topics import ROOT, Topic
from extensions.programs.snippet import Snippet
from tests.course.test_project import SOLUTION

SCRIPTS = ROOT / "docs/course/project"
SNIPPET = Snippet.read(Topic(ROOT, "course/project").snippet)
PROGRAM = "\n\n".join(SNIPPET.cell(name).source for name in SOLUTION) + "\n"
NAMES = "find_pictures read_picture split make_model train save predict"
FUNCTIONS = dict(enumerate(NAMES.split(), 1))


def module_of(name):
    """Return one of the scripts as a module."""
    spec = importlib.util.spec_from_file_location(name, SCRIPTS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def check(tmp_path, monkeypatch, capsys):
    """Return what checks a program, and gives what is printed."""
    script = module_of("check")
    monkeypatch.setattr(script, "PROJECT", tmp_path / "project.py")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the other cores are busy

    def checked(program, *milestones):
        monkeypatch.delitem(sys.modules, "project", raising=False)
        if program is not None:
            (tmp_path / "project.py").write_text(program)
        try:
            script.main([str(each) for each in milestones])
        except SystemExit as end:
            print("ended with", end)
        monkeypatch.delitem(sys.modules, "project", raising=False)
        said = capsys.readouterr().out
        assert "Traceback" not in said
        return said

    return checked


def edited(old, new, program=PROGRAM):
    """Return the solution with one passage changed."""
    assert program.count(old) == 1, old
    return program.replace(old, new)


def opened(name, line):
    """Return the solution with a line at the beginning of a function."""
    opening = re.search(rf"^def {name}\(.*$", PROGRAM, re.MULTILINE)[0]
    return edited(opening, f"{opening}\n    {line}")


def quick(program):
    """Return a program that trains, and not well."""
    return program.replace("range(15)", "range(1)")


QUICK = quick(PROGRAM)


@pytest.mark.parametrize(("milestone", "name"), FUNCTIONS.items())
def test_each_milestone_is_done_or_says_what_is_missing(
    check, milestone, name
):
    said = check(PROGRAM if milestone == 5 else QUICK, milestone)
    assert f"Milestone {milestone}: done" in said
    assert "not yet" not in said

    said = check(PROGRAM.replace(f"\ndef {name}(", "\ndef other("), milestone)
    assert f"project.py has no function `{name}` yet." in said
    assert "ended with 1" in said

    said = check(quick(opened(name, "raise OSError('oh')")), milestone)
    assert f"Milestone {milestone}: not yet. `{name}` stopped" in said
    assert re.search(r"line \d+ of project.py: raise OSError\('oh'\)", said)
    assert "OSError: oh" in said


@pytest.mark.parametrize("milestone", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("value", ["None", "[1, 2, 3]"])
def test_a_wrong_kind_is_told(check, milestone, value):
    program = opened(FUNCTIONS[milestone], f"return {value}")
    said = check(program, milestone)
    assert f"Milestone {milestone}: not yet." in said
    assert "could not be checked" not in said


FOUND = "[(path, names.index(path.parent.name)) for path in paths]"
SORTED = "sorted({path.parent.name for path in paths}"
LISTED = 'in sorted(Path(folder).glob("*/*"))'
RGB, SCALED = 'convert("RGB")', "permute(2, 0, 1) / 255"
PARTS = "shuffled[count:], shuffled[:count]"
SCORES = "return self.linear(x.flatten(1))"
SAVED = 'torch.save({"weights": model.state_dict(), "names": names}, path)'
LOADED = '    model.load_state_dict(saved["weights"])\n'
MADE, GIVEN = 'make_model(len(saved["names"]))', 'return model, saved["names"]'
BEST = "scores.softmax(dim=1)[0]"
# By milestone: what is changed in the solution, into what, and what is said.
WRONG = {
    1: [
        (SORTED, f"{SORTED}, reverse=True", "names are not sorted"),
        (SORTED, "sorted({p.name for p in Path(folder).glob('*')}", "A file"),
        ("path.suffix.lower() in ENDINGS", "path.is_file()", "is no picture"),
        ('".jpeg", ', "", "ant/1.jpeg is missing from the pictures"),
        (LISTED, f"{LISTED}[::-1]", "not sorted by their paths"),
        ("names.index(path.parent.name)", "path.parent.name", "is of class"),
        (f"{FOUND}, names", FOUND, "should return two things"),
    ],
    2: [
        (f"{RGB}.resize", "resize", "at a gray picture, mode L"),
        (f"{RGB}.resize((32, 32))", RGB, "Pillow's `resize`"),
        (RGB, 'convert("L").convert("RGB")', "three channels"),
        (f"pixels.{SCALED}", "pixels / 255", "The colors come last"),
        (SCALED, "permute(2, 1, 0) / 255", "lies on its side"),
        (SCALED, "permute(2, 0, 1)", "Divide by 255"),
        (SCALED, "permute(2, 0, 1).flip(0) / 255", "red and blue are swapped"),
    ],
    3: [
        (", generator=generator", "", "A second call gave other parts"),
        (PARTS, "shuffled[:count], shuffled[count:]", "the first, for"),
        (PARTS, "shuffled, shuffled[:count]", "are in both parts"),
        (PARTS, PARTS.replace("shuffled", "pictures"), "Choose them at rand"),
        ("order = torch", "pictures.reverse(); order = torch", "changed the"),
        (PARTS, "shuffled[count:], order[:count]", "should hold pairs"),
    ],
    4: [
        ("(2048, number_of_classes)", "(2048, 2)", "should have shape (4, 50"),
        ("nn.Linear(2048,", "nn.Linear(128,", "line "),
        (SCORES, f"{SCORES}.softmax(dim=1)", "Leave softmax out"),
        ("(x.flatten(1))", "(0 * x.flatten(1))", "the same scores"),
    ],
    5: [
        ('right")\n    return model', 'right")', "None (is there a `return`"),
        ("range(1)", "range(0)", "of 60 new shapes right, and 55 are needed"),
        ("read_all(train_", "read_all(valid_", "train on the first list"),
    ],
    6: [
        (LOADED, "", "Does `load` call `load_state_dict`?"),
        ("    model.eval()\n    return", "    return", "call `model.eval()`"),
        ('"names": names}', '"names": sorted(names)}', "in this order"),
        (GIVEN, "return model", "should return two things, the model"),
        (SAVED, SAVED.replace(".state_dict()", ""), "not the whole model"),
        (MADE, "make_model(3)", "size mismatch for linear.weight"),
    ],
    7: [
        ("(path)[None]", "(path)", "expected a batch"),
        ("probability.item()", "probability", "`.item()` makes one"),
        (BEST, "scores[0]", "scores.softmax(dim=1)"),
        ("return names[best]", "return best", "The name should be text"),
        ('__name__ == "__main__"', "False", "wrote no mine.pt"),
    ],
}


@pytest.mark.parametrize(
    ("milestone", "old", "new", "said"),
    [(number, *each) for number, cases in WRONG.items() for each in cases],
)
def test_a_wrong_version_is_told(check, milestone, old, new, said):
    program = PROGRAM if "train on" in said else QUICK
    found = check(edited(old, new, program), milestone)
    assert f"Milestone {milestone}: not yet." in found
    assert said in found


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "There is no project.py in"),
        ("def split(:\n", "Python cannot read line 1 of project.py"),
        ("import torch\nnumpy.array(3)\n", "NameError: name 'numpy'"),
        ("raise SystemExit\n", "ends Python as soon as it is imported"),
        ("split = 3\n", "`split` is '3', of type int, no function"),
        ("def split():\n    pass\n", "TypeError: split() takes 0"),
        (
            "import sys\n\ncommand, folder, path = sys.argv[1:]\n",
            'belong above `if __name__ == "__main__":`',
        ),
    ],
)
def test_a_program_that_cannot_be_imported_is_told(check, program, said):
    assert said in check(program, 3)


def test_names_must_come_from_the_file_that_load_gets(check):
    opening = "def save(model, names, path):\n"
    kept = "    LAST.update(names=names, weights=model.state_dict())\n"
    program = edited(opening, f"LAST = {{}}\n\n\n{opening}{kept}")
    read = 'torch.load(path, map_location="cpu")'
    said = check(program.replace(read, "LAST"), 6)
    assert "Do they come from the file at the path?" in said


@pytest.mark.parametrize("milestones", [["8"], ["two"], ["1", "2"]])
def test_another_number_is_refused(check, milestones):
    assert "Name one milestone, 1 to 7." in check(PROGRAM, *milestones)


def test_all_are_checked_up_to_the_first_that_is_open(tmp_path):
    program = PROGRAM.replace("shuffled[count:]", "shuffled")
    (tmp_path / "project.py").write_text(program)
    command = [sys.executable, str(SCRIPTS / "check.py")]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True
    )

    first, second, third = done.stdout.splitlines()
    assert (first, second) == ("Milestone 1: done", "Milestone 2: done")
    assert third.startswith("Milestone 3: not yet. 20 pictures are in both")
    assert (done.returncode, done.stderr) == (1, "")
    assert [path.name for path in tmp_path.iterdir()] == ["project.py"]


def pictures_in(folder):
    """Return the bytes of each picture in a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.glob("*/*.png")
    }


def test_the_page_and_the_script_draw_the_same_from_a_seed(
    tmp_path, monkeypatch, capsys
):
    drawing = module_of("make_pictures")
    monkeypatch.chdir(tmp_path)
    for folder, seed in (("a", "2"), ("b", "1")):
        options = ["--folder", folder, "--count", "3", "--seed", seed]
        monkeypatch.setattr(sys, "argv", ["make_pictures.py", *options])
        drawing.main()
    run = SNIPPET.only(*SOLUTION, "draw").after("draw")
    run.draw_folder(tmp_path / "c", 3, 2)

    drawn = [pictures_in(tmp_path / folder) for folder in "abc"]
    assert len(drawn[0]) == 9
    assert drawn[0] == drawn[2]
    assert drawn[0] != drawn[1]
    assert "drew 3 x 3 pictures in a" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="b exists already"):
        drawing.main()


def test_the_page_offers_both_scripts():
    page = Topic(ROOT, "course/project").page.read_text()
    offered = re.findall(r"\{download\}`[\w.]+ <project/(\w+\.py)>`", page)
    assert sorted(offered) == sorted(
        each.name for each in SCRIPTS.glob("*.py")
    )
