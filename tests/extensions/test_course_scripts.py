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
FUNCTIONS = {
    1: "find_pictures",
    2: "read_picture",
    3: "split",
    4: "make_model",
    5: "train",
    6: "save",
    7: "predict",
}
NOT_A_FILE = "names = sorted({path.name for path in Path(folder).iterdir()})"


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
        return capsys.readouterr().out

    return checked


def edited(old, new):
    """Return the solution with one passage changed."""
    assert PROGRAM.count(old) == 1, old
    return PROGRAM.replace(old, new)


@pytest.mark.parametrize("milestone", FUNCTIONS)
def test_the_solution_passes(check, milestone):
    said = check(PROGRAM, milestone)
    assert f"Milestone {milestone}: done" in said
    assert "not yet" not in said


@pytest.mark.parametrize("milestone", FUNCTIONS)
def test_a_missing_function_is_named(check, milestone):
    name = FUNCTIONS[milestone]
    said = check(re.sub(rf"\bdef {name}\(", "def other(", PROGRAM), milestone)
    assert f"project.py has no function `{name}` yet." in said
    assert "ended with 1" in said


@pytest.mark.parametrize("milestone", FUNCTIONS)
def test_an_error_is_told_with_its_line(check, milestone):
    name = FUNCTIONS[milestone]
    opening = re.search(rf"^def {name}\(.*$", PROGRAM, re.MULTILINE)[0]
    broken = edited(opening, f"{opening}\n    raise OSError('oh')")
    said = check(broken, milestone)
    assert f"Milestone {milestone}: not yet. `{name}` stopped" in said
    assert "OSError: oh" in said
    assert re.search(r"line \d+ of project.py: raise OSError\('oh'\)", said)


@pytest.mark.parametrize("milestone", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("value", ["None", "3", "'text'", "[1, 2, 3]", "int"])
def test_a_wrong_kind_is_told(check, milestone, value):
    name = FUNCTIONS[milestone]
    opening = re.search(rf"^def {name}\(.*$", PROGRAM, re.MULTILINE)[0]
    said = check(edited(opening, f"{opening}\n    return {value}"), milestone)
    assert f"Milestone {milestone}: not yet." in said
    assert "could not be checked" not in said


WRONG = [
    (
        1,
        "names = sorted({path.parent.name for path in paths})",
        "names = sorted({path.parent.name for path in paths}, reverse=True)",
        "names are not sorted",
    ),
    (
        1,
        "names = sorted({path.parent.name for path in paths})",
        NOT_A_FILE,
        "A file is no class",
    ),
    (
        1,
        "        if path.suffix.lower() in ENDINGS\n",
        "        if path.is_file()\n",
        "notes.txt is no picture",
    ),
    (1, "path.suffix.lower()", "path.suffix", "1.JPG is missing"),
    (
        1,
        'in sorted(Path(folder).glob("*/*"))',
        'in sorted(Path(folder).glob("*/*"))[::-1]',
        "not sorted by their paths",
    ),
    (
        1,
        "[(path, names.index",
        "[(path.name, names.index",
        "Give the whole path",
    ),
    (
        1,
        "[(path, names.index(path.parent.name)) for",
        "[(path, path.parent.name) for",
        "is of class",
    ),
    (
        1,
        "for path in paths], names\n",
        "for path in paths]\n",
        "should return two things",
    ),
    (2, 'convert("RGB").resize', "resize", "at a gray picture, mode L"),
    (
        2,
        'convert("RGB").resize((32, 32))',
        'convert("RGB")',
        "Pillow's `resize`",
    ),
    (
        2,
        "pixels.permute(2, 0, 1) / 255",
        "pixels / 255",
        "The colors come last",
    ),
    (2, "permute(2, 0, 1)", "permute(2, 1, 0)", "lies on its side"),
    (2, "permute(2, 0, 1) / 255", "permute(2, 0, 1)", "Divide by 255"),
    (
        2,
        "permute(2, 0, 1) / 255",
        "permute(2, 0, 1) / 255 / 255",
        "expected 0 to 1",
    ),
    (
        2,
        "permute(2, 0, 1) / 255",
        "permute(2, 0, 1).flip(0) / 255",
        "red and blue are swapped",
    ),
    (2, "permute(2, 0, 1) / 255", "permute(2, 0, 1).byte()", "torch.uint8"),
    (2, 'convert("RGB")', 'convert("L").convert("RGB")', "three channels"),
    (2, 'convert("RGB")', 'convert("L")', "stopped"),
    (3, ", generator=generator", "", "A second call gave other parts"),
    (
        3,
        "shuffled[count:], shuffled[:count]",
        "shuffled[:count], shuffled[count:]",
        "the first, for training",
    ),
    (
        3,
        "shuffled[count:], shuffled[:count]",
        "shuffled, shuffled[:count]",
        "are in both parts",
    ),
    (
        3,
        "shuffled[count:], shuffled[:count]",
        "shuffled[count + 1:], shuffled[:count]",
        "parts have 79 and 20",
    ),
    (
        3,
        "shuffled[count:], shuffled[:count]",
        "pictures[count:], pictures[:count]",
        "Choose them at random",
    ),
    (
        3,
        "order = torch",
        "pictures.reverse(); order = torch",
        "changed the list",
    ),
    (3, "// 5", "// 50", "expected about 80 and 20"),
    (
        3,
        "shuffled[count:], shuffled[:count]",
        "shuffled[count:], order[:count]",
        "should hold pairs",
    ),
    (
        4,
        "nn.Linear(2048, number_of_classes)",
        "nn.Linear(2048, 2)",
        "should have shape (4, 50)",
    ),
    (4, "nn.Linear(2048,", "nn.Linear(128,", "line "),
    (
        4,
        "nn.Conv2d(3, 16",
        "nn.Conv2d(1, 16",
        "The model stopped with pictures of shape (4, 3, 32, 32)",
    ),
    (
        4,
        "return self.linear(x.flatten(1))",
        "return self.linear(x.flatten(1)).softmax(dim=1)",
        "Leave softmax out",
    ),
    (4, "return Net(number_of_classes)", "return Net", "the class Net itself"),
    (
        4,
        "return self.linear(x.flatten(1))",
        "return self.linear(0 * x.flatten(1))",
        "the same scores",
    ),
    (
        5,
        'right:.0%} right")\n    return model',
        'right:.0%} right")',
        "None (is there a `return`?)",
    ),
    (5, "range(15)", "range(0)", "of 60 new shapes right, and 55 are needed"),
    (
        5,
        "        optimizer.step()\n",
        "",
        "whether the optimizer makes its steps",
    ),
    (
        6,
        '    model.load_state_dict(saved["weights"])\n',
        "",
        "Does `load` call `load_state_dict`?",
    ),
    (
        6,
        '    model.load_state_dict(saved["weights"])\n    model.eval()\n',
        '    model.load_state_dict(saved["weights"])\n',
        "call `model.eval()`",
    ),
    (6, '"names": names}', '"names": sorted(names)}', "in this order"),
    (
        6,
        'return model, saved["names"]',
        "return model",
        "should return two things, the model",
    ),
    (
        6,
        'return model, saved["names"]',
        'return saved["names"], model',
        "the model first",
    ),
    (
        6,
        'torch.save({"weights": model.state_dict(), "names": names}, path)',
        'torch.save({"weights": model, "names": names}, path)',
        "not the whole model",
    ),
    (
        6,
        'torch.save({"weights": model.state_dict(), "names": names}, path)',
        "pass",
        "wrote no file",
    ),
    (6, 'make_model(len(saved["names"]))', "make_model(3)", "`load` stopped"),
    (7, "read_picture(path)[None]", "read_picture(path)", "expected a batch"),
    (7, "probability.item()", "probability", "`.item()` makes one"),
    (
        7,
        "scores.softmax(dim=1)[0]",
        "scores.softmax(dim=0)[0]",
        "expected 'red' and 0.79",
    ),
    (7, "scores.softmax(dim=1)[0]", "scores[0]", "scores.softmax(dim=1)"),
    (7, "return names[best]", "return best", "The name should be text"),
    (
        7,
        'if __name__ == "__main__":\n    main(sys.argv[1:])\n',
        "",
        "wrote no mine.pt",
    ),
]

FIND = (
    "return [(path, names.index(path.parent.name)) for path in paths], names"
)
PAIRS = "shuffled = [pictures[place] for place in order]"
SCORES = "return self.linear(x.flatten(1))"
WRONG += [
    (
        1,
        FIND,
        FIND.replace("return ", "found = ") + "\n    return found[::-1]",
        "The pictures should come first",
    ),
    (2, ".resize((32, 32))", ".crop((0, 0, 32, 32))", "On the right"),
    (2, "permute(2, 0, 1) / 255", "permute(2, 0, 1) / pixels.max()", "dark"),
    (2, "permute(2, 0, 1) / 255", "permute(2, 0, 1)[None] / 255", "no axis"),
    (3, PAIRS, "shuffled = order", ", of type int"),
    (3, PAIRS, PAIRS.replace("place]", "place][0]"), ".png', of type str"),
    (4, SCORES, f"{SCORES}.relu()", "Leave softmax out"),
    (4, SCORES, f"{SCORES}.sigmoid()", "Leave softmax out"),
    (
        5,
        "read_all(train_pictures)",
        "read_all(valid_pictures)",
        "are needed: train on the first list",
    ),
    (
        6,
        'make_model(len(saved["names"]))',
        "make_model(3)",
        "size mismatch for linear.weight",
    ),
    (
        7,
        "names = find_pictures(folder)",
        "names = find_pictures('pictures')",
        "train drawn mine.pt` stopped",
    ),
    (
        7,
        "save(model, names, path)\n        c",
        "save(model, names, 'model.pt')\n        c",
        "wrote no mine.pt",
    ),
    (
        7,
        "train(*split(pictures), names)",
        "train(*split(pictures), names[:3])",
        "Target 3 is out of bounds",
    ),
]


@pytest.mark.parametrize(("milestone", "old", "new", "said"), WRONG)
def test_a_wrong_version_is_told(check, milestone, old, new, said):
    program = edited(old, new)
    if milestone == 7:  # its command has to run, and not to train well
        program = program.replace("range(15)", "range(1)")
    found = check(program, milestone)
    assert f"Milestone {milestone}: not yet." in found
    assert said in found
    assert "Traceback" not in found


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (None, "There is no project.py in"),
        ("def split(:\n", "Python cannot read line 1 of project.py"),
        ("import torch\nnumpy.array(3)\n", "NameError: name 'numpy'"),
        ("raise SystemExit\n", "ends Python as soon as it is imported"),
        ("split = 3\n", "`split` is '3', of type int, no function"),
        ("def split():\n    pass\n", "TypeError: split() takes 0"),
    ],
)
def test_a_program_that_cannot_be_imported_is_told(check, program, said):
    assert said in check(program, 3)


def test_code_that_runs_on_import_is_told_where_it_belongs(check):
    top = "import sys\n\ncommand, folder, path = sys.argv[1:]\n"
    assert 'belong above `if __name__ == "__main__":`' in check(top, 3)


@pytest.mark.parametrize(
    ("old", "new", "missing"),
    [("jpeg", "jpg", "ant/1.jpeg"), ("png", "gif", "ant/1.png")],
)
def test_each_usual_ending_is_asked_for(check, old, new, missing):
    said = check(PROGRAM.replace(f'".{old}"', f'".{new}"'), 1)
    assert f"{missing} is missing from the pictures" in said


def test_names_must_come_from_the_file_that_load_gets(check):
    opening = "def save(model, names, path):\n"
    kept = "    LAST.update(names=names, weights=model.state_dict())\n"
    program = edited(opening, f"LAST = {{}}\n\n\n{opening}{kept}")
    read = 'torch.load(path, map_location="cpu")'
    said = check(program.replace(read, "LAST"), 6)
    assert "Do they come from the file at the path?" in said


@pytest.mark.parametrize("milestones", [["8"], ["0"], ["two"], ["1", "2"]])
def test_another_number_is_refused(check, milestones):
    assert "Name one milestone, 1 to 7." in check(PROGRAM, *milestones)


def test_all_are_checked_up_to_the_first_that_is_open(tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
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


def test_the_same_seed_draws_the_same_pictures(tmp_path, monkeypatch, capsys):
    drawing = module_of("make_pictures")
    monkeypatch.chdir(tmp_path)
    found = {}
    for folder, seed in (("a", "0"), ("b", "0"), ("c", "1")):
        options = ["--folder", folder, "--count", "3", "--seed", seed]
        monkeypatch.setattr(sys, "argv", ["make_pictures.py", *options])
        drawing.main()
        found[folder] = pictures_in(tmp_path / folder)

    assert len(found["a"]) == 9
    assert found["a"] == found["b"]
    assert found["a"] != found["c"]
    with pytest.raises(SystemExit, match="c exists already"):
        drawing.main()
    assert "drew 3 x 3 pictures in a" in capsys.readouterr().out


def pictures_in(folder):
    """Return the bytes of each picture in a folder, by its path there."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.glob("*/*.png")
    }


def test_the_page_draws_what_the_script_draws(tmp_path):
    run = SNIPPET.only(*SOLUTION, "draw").after("draw")
    drawing = module_of("make_pictures")
    for folder, draw in (("a", run.draw_folder), ("b", drawing.draw_folder)):
        draw(tmp_path / folder, 4, 2)

    assert len(pictures_in(tmp_path / "a")) == 12
    assert pictures_in(tmp_path / "a") == pictures_in(tmp_path / "b")


def test_the_page_offers_both_scripts():
    page = Topic(ROOT, "course/project").page.read_text()
    offered = re.findall(r"\{download\}`[\w.]+ <project/(\w+\.py)>`", page)
    assert sorted(offered) == sorted(each.name for each in SCRIPTS.iterdir())
