"""The claims of docs/fix/loading_files.md."""

import errno
import io
import pickle
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

# TorchScript and its interpreter for phones are deprecated.
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


def test_operands_are_letters(snippet, contents=(), checked=True):
    found = snippet.after("no-pickle")

    for content in contents or (found.pointer, found.page):
        said = found.said(content, weights_only=checked).replace("\n", " ")
        assert f"Unsupported operand {content[0]} " in said


CONTENTS = {
    "JSON": b'{"error": "Not authorized"}',
    "a page that begins with an empty line": b"\n<html>",
    "HDF5": b"\x89HDF\r\n\x1a\n"[1:],
    "zeros": bytes(100),
    "gzip": b"\x1f\x8b\x08\x00",
}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_operands_are_letters__also_for(snippet, content):
    test_operands_are_letters(snippet, [content])


def test_operands_are_letters__but_not_if_all_is_taken(snippet, fails):
    """With `weights_only=False`, the text is `invalid load key, 'v'`."""
    fails(test_operands_are_letters, snippet, (), False)


def test_operands_are_letters__ends_in_a_pickle(snippet, fails):
    """For a file of `pickle.dump`, it is 149, in the middle of the file."""
    fails(test_operands_are_letters, snippet, [pickle.dumps({"a": 1})])


def test_operands_are_letters__ends_with_letters_of_pickles(snippet, fails):
    """For `Not Found` it is 111, `o`, because pickles have an `N`."""
    fails(test_operands_are_letters, snippet, [b"Not Found"])


def test_cut_files_say_so(snippet, shares=(0.999,), **options):
    found = after(snippet, "said", "saved")

    for share in shares:
        cut = found.now[: int(share * len(found.now))]
        zipped = str(found.said(cut, **options))
        assert "PytorchStreamReader failed reading zip archive" in zipped
        cut = found.before[: int(share * len(found.before))]
        assert "unexpected EOF" in str(found.said(cut, **options))
    assert str(found.said(b"", **options)).startswith("EOFError")


def test_cut_files_say_so__also_in_the_middle(snippet):
    test_cut_files_say_so(snippet, [0.01, 0.5, 0.9])


def test_cut_files_say_so__also_without_a_check_of_types(snippet):
    test_cut_files_say_so(snippet, weights_only=False)


def test_cut_files_say_so__but_not_whole_files(snippet, fails):
    """A whole file loads."""
    fails(test_cut_files_say_so, snippet, [1])


def test_cut_files_say_so__ends_near_the_beginning(snippet, fails):
    """Of a file of the old format, the first bytes are a broken pickle."""
    fails(test_cut_files_say_so, snippet, [0.0005])


def test_cut_files_say_so__ends_with_a_small_file(snippet, fails):
    """A cut file of 4 to 68 KB says `[Errno 22] Invalid argument`."""
    fails(test_cut_files_say_so, snippet.edit("100_000", "5_000"))


def test_each_kind_has_its_loader(snippet):
    found = after(snippet, "said", "saved", "other-kind")

    assert found.missed["save"].endswith("constants.pkl: file not found")
    assert found.missed["script"].endswith("bytecode.pkl: file not found")


LAYERS = {
    "a convolution": "nn.Conv2d(3, 8, 3)",
    "several layers": "nn.Sequential(nn.Linear(2, 2), nn.ReLU())",
}


@pytest.mark.parametrize("layer", LAYERS.values(), ids=LAYERS)
def test_each_kind_has_its_loader__also_with(snippet, layer):
    old = "layer = nn.Linear(2, 2)"
    test_each_kind_has_its_loader(snippet.edit(old, f"layer = {layer}"))


def test_each_kind_has_its_loader__but_not_by_torch_load(snippet, fails):
    """`torch.load` reads a file of `torch.save`."""
    edited = snippet.edit('("save", torch.jit.load)', '("save", torch.load)')
    fails(test_each_kind_has_its_loader, edited)


def test_each_kind_has_its_loader__but_not_saved_for_phones(snippet, fails):
    """What `_save_to_buffer_for_lite_interpreter` gives has the file."""
    edited = snippet.edit(
        'torch.jit.save(torch.jit.script(layer), stored["script"])',
        'stored["script"].write(\n'
        "    torch.jit.script(layer)._save_to_buffer_for_lite_interpreter()\n"
        ")",
    )
    fails(test_each_kind_has_its_loader, edited)


def error_of(call):
    """Return what an error says that a call raises, or nothing."""
    try:
        call()
    except Exception as error:
        return str(error)
    return ""


def test_a_state_dict_needs_a_model(snippet):
    with no_error():
        found = snippet.after("build-first")

    for name in ("eval", "to", "cuda", "train", "parameters", "state_dict"):
        said = error_of(lambda name=name: getattr(found.model, name))
        assert said.endswith(f"object has no attribute {name!r}")
    assert found.loaded(found.x).tolist() == found.trained(found.x).tolist()


@edits(
    ("BatchNorm", "nn.Linear(2, 1)", "nn.BatchNorm1d(2).eval()"),
    ("layers", "nn.Linear(2, 1)", "nn.Sequential(nn.Linear(2, 3))"),
)
def test_a_state_dict_needs_a_model__also_for(snippet, old, new):
    program = type(snippet)(snippet.path, snippet.text.replace(old, new))
    program = program.edit("[1.0, 2.0])", "[[1.0, 2.0]])")
    program = program.edit("print(trained(x).item(), loaded(x).item())", "")
    test_a_state_dict_needs_a_model(program)


def test_a_state_dict_needs_a_model__but_not_if_all_was_saved(snippet, fails):
    """A file with the whole model gives it back, if you trust the file."""
    edited = snippet.edit(
        "torch.save(trained.state_dict()", "torch.save(trained"
    )
    edited = edited.edit(
        "torch.load(file)", "torch.load(file, weights_only=0)"
    )
    edited = edited.edit("load_state_dict(model)", "load_state_dict({}, 0)")
    fails(test_a_state_dict_needs_a_model, edited)


def test_a_whole_checkpoint_does_not_fit(snippet, inside="model"):
    found = snippet.after("whole-checkpoint")
    given = found.checkpoint

    fresh = nn.Linear(2, 1)
    begun = fresh.weight.tolist()
    said = error_of(lambda: fresh.load_state_dict(given))
    missing, _, unexpected = said.partition("Unexpected key(s)")
    assert '"weight", "bias"' in missing
    assert f'"{inside}"' in unexpected
    fresh.load_state_dict(given, strict=False)
    assert fresh.weight.tolist() == begun


def test_a_whole_checkpoint_does_not_fit__also_by_another_name(snippet):
    text = snippet.text.replace('"model"', '"state_dict"')
    program = type(snippet)(snippet.path, text)
    test_a_whole_checkpoint_does_not_fit(program, "state_dict")


def test_a_whole_checkpoint_does_not_fit__but_its_weights_do(snippet, fails):
    """The weights inside, `checkpoint["model"]`, fit."""
    old = '{"model": trained.state_dict(), "epoch": 3}'
    edited = snippet.edit(old, "trained.state_dict()")
    edited = edited.edit('checkpoint["model"]', "checkpoint")
    fails(test_a_whole_checkpoint_does_not_fit, edited)


def test_a_failed_write_hides_its_cause(snippet, target=None, save=None):
    found = snippet.after("full")
    target = target or found.FullDisk()
    save = save or torch.save

    said = error_of(lambda: save(found.weights, target))
    assert "unexpected pos" in said
    assert "No space left" not in said


@edits(
    ("a full quota", "failed = errno.ENOSPC", "failed = errno.EDQUOT"),
    ("a broken disk", "failed = errno.ENOSPC", "failed = errno.EIO"),
    ("more room", "> 500", "> 4000"),
)
def test_a_failed_write_hides_its_cause__also_for(snippet, old, new):
    test_a_failed_write_hides_its_cause(snippet.edit(old, new))


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_failed_write_hides_its_cause__also_for_a_path(snippet):
    test_a_failed_write_hides_its_cause(snippet, "/dev/full")


def test_a_failed_write_hides_its_cause__but_not_with_room(snippet, fails):
    """If there is room for all of it, nothing is raised."""
    fails(test_a_failed_write_hides_its_cause, snippet, io.BytesIO())


def save_opened(weights, path):
    with Path(path).open("wb") as file:
        torch.save(weights, file)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_failed_write_hides_its_cause__ends_with_open(snippet, fails):
    """If you `open` the file yourself, closing it raises the reason last."""
    fails(
        test_a_failed_write_hides_its_cause, snippet, "/dev/full", save_opened
    )


class Full(io.BytesIO):
    """A file on a disk that has no room at all."""

    def write(self, content):
        """Fail."""
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_failed_write_hides_its_cause__ends_at_the_first(snippet, fails):
    """If the very first write fails, its own error comes through."""
    fails(test_a_failed_write_hides_its_cause, snippet, Full())
