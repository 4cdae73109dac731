"""Run each program whose outputs are stale, before sphinx-gallery lists them.

Each runs in a process of its own: in that of Sphinx, one that ends itself
would end the build, and one that sets something would set it for all that
follow. Beside its outputs stands a *stamp*, the fingerprint of the run: the
program, what it ran with, and each file that it left. sphinx-gallery's own
cache looks at the program alone, and believes itself before it has written the
outputs.
"""

import contextlib
import gc
import json
import multiprocessing
import os
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from logging import WARNING, getLogger
from logging.handlers import BufferingHandler
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.display import status_iterator

from extensions.core.environment import (
    device,
    environment_variables,
    installed,
    our_code,
)
from extensions.core.files import (
    Problem,
    bytes_of,
    json_of,
    remove,
    text_of,
    write,
)
from extensions.core.fingerprint import Fingerprint
from extensions.core.topics import Topic, topics
from extensions.programs import sphinx_figures
from extensions.programs.outputs import outputs_file
from extensions.programs.recorded import record_of, recorded
from extensions.programs.snippet import no_network
from extensions.site.errors import stop

_logger = logging.getLogger(__name__)

# What a program draws, and all that it leaves, by its name, and no other whose
# name holds it.
_DRAWN = ("images/sphx_glr_{}_[0-9]*", "images/thumb/sphx_glr_{}_thumb.*")
_LEFT = ("{}.*", *_DRAWN)
# Of what is left: what pages show, and what sphinx-gallery reads again.
_NOTED = ("{}.codeobj.json", "{}.outputs.json")
_OUTPUTS = ("{}.rst", "{}.py", "{}.py.md5", *_NOTED, *_DRAWN)
NO_RUN = "no run of it is recorded"


def stamp_of(topic: Topic) -> Path:
    """Return where the stamp of a program stands."""
    return topic.output.with_suffix(".ran")


def _now(program: Path, topic: Topic, settings: str) -> Fingerprint:
    folder = topic.output.parent
    parts: dict[str, str | bytes] = {
        path.relative_to(folder).as_posix(): bytes_of(path)
        for path in _found(topic, _OUTPUTS)
    }
    parts |= {
        "the program": text_of(program),
        "the libraries": installed(),
        "the device": device(),
        "our code": our_code("programs", "core"),
        "sphinx_gallery_conf": settings,
        **environment_variables(),
    }
    if (path := record_of(topic)).is_file():
        parts["the recorded outputs"] = bytes_of(path)
    return Fingerprint.of(parts)


def _found(topic: Topic, patterns: Iterable[str]) -> list[Path]:
    folder, name = topic.output.parent, topic.output.stem
    return sorted(
        path
        for pattern in patterns
        for path in folder.glob(pattern.format(name))
    )


def why_stale(topic: Topic, settings: str) -> list[str]:
    """Return why a program has to run; nothing if its outputs are right."""
    stamp = Fingerprint()
    with contextlib.suppress(Problem):  # there is none, or it is damaged
        stamp = Fingerprint.read(json_of(stamp_of(topic)))
    if not stamp.parts:
        return [NO_RUN]
    return _now(topic.snippet, topic, settings).changes_since(stamp)


def stale(root: Path, settings: str) -> dict[Topic, list[str]]:
    """Return the programs that have to run, each with the reason."""
    found = {topic: why_stale(topic, settings) for topic in topics(root)}
    return {topic: why for topic, why in found.items() if why}


def note(topic: Topic, settings: str) -> None:
    """Note that a program has run to its end.

    What ran is the copy that sphinx-gallery made: the program itself may have
    been edited since.
    """
    found = _now(topic.output.with_suffix(".py"), topic, settings)
    write(stamp_of(topic), json.dumps(found.parts, indent=0) + "\n")


def sweep(root: Path) -> None:
    """Remove what programs have left that are no more."""
    known = {stamp_of(topic) for topic in topics(root)}
    for stamp in root.glob("docs/**/*.ran"):
        if stamp not in known:
            name = stamp.relative_to(root / "docs").with_suffix("").as_posix()
            for path in _found(Topic(root, name.removeprefix("code/")), _LEFT):
                remove(path)


# What takes seconds to import, by a word of the programs that need it. The
# first optimizer of a process imports torch's compiler.
_SLOW = {
    "torch": "torch",
    "optim": "torch._dynamo",
    "pandas": "pandas",
    "matplotlib": "matplotlib.pyplot",
    "sklearn": "sklearn.datasets",
}
# What the process of each program needs besides.
_NEEDED = (
    "sphinx.cmd.build",
    "sphinx_gallery.gen_gallery",
    sphinx_figures.__name__,
    __name__,
)


def import_once(root: Path, settings: str) -> None:
    """Let a server import what stale programs need, while Sphinx begins.

    The processes of the programs are forks of it, and it is no fork of Sphinx.
    """
    with contextlib.suppress(Problem):  # which a rule will report
        if programs := stale(root, settings):
            text = "".join(text_of(topic.snippet) for topic in programs)
            slow = [module for word, module in _SLOW.items() if word in text]
            forkserver.set_forkserver_preload([*slow, *_NEEDED])
            forkserver.ensure_running()


def run_stale(app: Sphinx, settings: str) -> None:
    """Run the programs that have to, then say all faults."""
    root = Path(app.srcdir).parent
    sweep(root)
    # Recipes take the longest, so they begin.
    programs = sorted(
        stale(root, settings).items(), key=lambda each: not each[0].is_recipe
    )
    for topic, why in programs:
        because = why[0] if why == [NO_RUN] else f"{', '.join(why)} changed"
        _logger.info("%s: run, because %s", topic.name, because)
        # Or sphinx-gallery believes that it has run, and takes an old
        # thumbnail of another format.
        for path in _found(topic, ("{}.ran", "{}.py.md5", *_DRAWN)):
            remove(path)
        thumbs = topic.output.parent / "images/thumb"
        thumbs.mkdir(parents=True, exist_ok=True)
    if broken := _run(app, [topic for topic, _ in programs], settings):
        stop(broken)


def _run(app: Sphinx, order: list[Topic], settings: str) -> list[Problem]:
    conf, seconds = app.config.sphinx_gallery_conf, app.config.program_seconds
    broken: list[Problem] = []
    with ThreadPoolExecutor(max(1, app.parallel)) as pool:
        results = pool.map(lambda each: run(each, conf, seconds), order)
        shown = status_iterator(
            order,
            "running programs... ",
            length=len(order),
            stringify_func=lambda topic: topic.name,
        )
        for topic, wrong in zip(shown, results, strict=True):
            broken += wrong
            if not wrong:
                note(topic, settings)
    return broken


_Said = list[tuple[int, str]]  # what is wrong with a program, by line
_LETTERS = 200_000  # what sphinx-gallery may write of a program


def run(topic: Topic, conf: dict[str, Any], seconds: int) -> list[Problem]:
    """Run a program in a process of its own; return all that was wrong.

    Where a library lacks, what is recorded takes the place of each output.
    """
    try:
        kept = recorded(topic)
    except Problem as problem:
        return [problem]
    processes = multiprocessing.get_context("forkserver")
    receiver, sender = processes.Pipe(duplex=False)
    said: list[_Said] = []
    with tempfile.TemporaryDirectory() as folder:
        process = processes.Process(
            target=_work, args=(sender, topic, conf, seconds, folder, kept)
        )
        process.start()
        sender.close()
        with contextlib.suppress(EOFError):  # the process has ended
            said.append(receiver.recv())
        process.join()
        left = ", ".join(sorted(path.name for path in Path(folder).glob("*")))
    with contextlib.suppress(EOFError):  # a fork of it may have spoken too
        while receiver.poll():
            said.append(receiver.recv())
    wrong = _wrong_with(topic, process.exitcode or 0, seconds, said)
    if left:
        wrong.append((1, f"leaves behind in the working folder: {left}"))
    return [Problem(topic.snippet, line, message) for line, message in wrong]


def _wrong_with(
    topic: Topic, exitcode: int, seconds: int, answers: list[_Said]
) -> _Said:
    if exitcode == -signal.SIGALRM:
        what = "a thread that it left" if answers else "the program"
        return [(1, f"was ended after {seconds} s: {what} went on")]
    if exitcode < 0:
        return [(1, f"was ended by {signal.Signals(-exitcode).name}")]
    if not answers:
        return [(1, "ends its own process, without a word")]
    said = [each for answer in answers for each in answer]
    if not said and (letters := len(text_of(topic.output))) > _LETTERS:
        said = [(1, f"prints {letters:,} characters, {_LETTERS:,} at most")]
    return said


def _work(
    answer: Connection,
    topic: Topic,
    conf: dict[str, Any],
    seconds: int,
    folder: str,
    kept: dict[int, str] | None,
) -> None:
    """Let sphinx-gallery run a program in a folder; send what was wrong."""
    from sphinx_gallery import gen_rst

    # End in time, whatever the program does, though nobody may wait for it.
    signal.alarm(seconds)
    gc.freeze()  # sphinx-gallery collects garbage, but not all of torch's
    # sphinx-gallery looks up each attribute that a program names, and a page
    # may well show what torch warns of.
    warnings.filterwarnings("ignore", module="sphinx_gallery.backreferences")
    source = topic.snippet.parent

    def change(path: Any) -> None:
        """Let it work in the folder, and not in that of the program."""
        os.chdir(folder if path == source else path)

    heard = BufferingHandler(_LETTERS)  # what sphinx-gallery warns of
    heard.setLevel(WARNING)
    getLogger("sphinx").addHandler(heard)
    gen_rst.os = SimpleNamespace(**{**vars(os), "chdir": change})
    execute, outputs = gen_rst.execute_code_block, {}

    def run_block(compiler: Any, block: Any, *rest: Any) -> str:
        """Run a block, or take what is recorded, and keep what it gives."""
        if kept is not None:
            output = kept.get(block.lineno, "")
        else:
            output = execute(compiler, block, *rest)
        if block.type == "code":
            outputs[block.lineno] = output
        return output

    gen_rst.execute_code_block = run_block
    end_fork = partial(_end_fork, os.getpid(), answer)
    # Scrapers are called behind each block of code, in whatever runs it.
    conf = {**conf, "image_scrapers": (end_fork, *conf["image_scrapers"])}
    said: _Said = []
    try:
        with no_network():
            gen_rst.generate_file_rst(
                topic.snippet.name, topic.output.parent, source, conf
            )
    except (Exception, SystemExit) as error:
        end_fork()
        said = [_cause(error, topic)]
    else:
        said += [(1, each.getMessage().strip()) for each in heard.buffer]
        write(outputs_file(topic), json.dumps(outputs, indent=0) + "\n")
    answer.send(said)


def _end_fork(process: int, answer: Connection, *_: object) -> str:
    """End a fork of the program that goes on as if it were the program.

    It would write the outputs a second time.
    """
    if os.getpid() != process:
        answer.send([(1, "goes on in a fork of it: end that by os._exit")])
        os._exit(0)
    return ""


def _cause(error: BaseException, topic: Topic) -> tuple[int, str]:
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename == str(topic.snippet)]
    line = (own[-1].lineno or 1) if own else 1
    what = " ".join(str(error).split())
    return line, f"{type(error).__name__}: {what}"
