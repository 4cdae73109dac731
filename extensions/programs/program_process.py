"""One program in a process of its own, which can do no harm to the build.

Inside Sphinx's own process, a program that ends itself would end the build,
and one that sets something would set it for all that follow.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import os
import signal
import tempfile
import threading
import traceback
import warnings
from collections.abc import Iterator
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from extensions.core.files import Problem, text_of
from extensions.core.topics import Topic

_Said = list[tuple[int, str]]  # what is wrong with a program, by line

# What takes seconds to import, by a word of the programs that need it. The
# first optimizer of a process imports torch's compiler.
_SLOW = {
    "torch": "torch",
    "optim": "torch._dynamo",
    "pandas": "pandas",
    "matplotlib": "matplotlib.pyplot",
}
# What the process of each program needs besides.
_NEEDED = (
    "sphinx.cmd.build",
    "sphinx_gallery.gen_gallery",
    "sphinx_gallery.gen_rst",
    __name__,
)
# What sphinx-gallery may write of one program: its code and its outputs.
_LETTERS = 200_000
_SHOWN = 60  # bytes of what a program wrote past Python
_TOO_LONG = 124  # how a process ends that went on, where there is no alarm


def method() -> str:
    """Return how processes start: as forks of a server where there are any."""
    known = multiprocessing.get_all_start_methods()
    return "forkserver" if "forkserver" in known else "spawn"


def import_once(text: str) -> None:
    """Let the server import what is slow, and what some programs need.

    It does so beside this process, of which it is no fork.
    """
    if method() != "forkserver":
        return
    from multiprocessing import forkserver

    slow = [module for word, module in _SLOW.items() if word in text]
    forkserver.set_forkserver_preload([*slow, *_NEEDED])
    forkserver.ensure_running()


def run(topic: Topic, conf: dict[str, Any], seconds: int) -> list[Problem]:
    """Run a program in a process of its own; return all that was wrong."""
    processes = multiprocessing.get_context(method())
    receiver, sender = processes.Pipe(duplex=False)
    said: list[_Said] = []
    with tempfile.TemporaryDirectory() as folder:
        process = processes.Process(  # type: ignore[attr-defined]
            target=_work, args=(sender, topic, conf, seconds, folder)
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
    """Return what is wrong, given how a process ended and what it sent."""
    alarm = getattr(signal, "SIGALRM", 0)
    if exitcode in {-alarm, _TOO_LONG} and exitcode:
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


class _Heard(logging.Handler):
    """Keeps what sphinx-gallery warns of while it runs a program."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.messages.append(record.getMessage().strip())


def _work(
    answer: Connection,
    topic: Topic,
    conf: dict[str, Any],
    seconds: int,
    folder: str,
) -> None:
    """Let sphinx-gallery run a program in a folder; send what was wrong."""
    gc.freeze()  # sphinx-gallery collects garbage, but not all of torch's
    # sphinx-gallery looks up each attribute that a program names, and a page
    # may well show what torch warns of.
    warnings.filterwarnings("ignore", module="sphinx_gallery.backreferences")
    from sphinx_gallery.gen_rst import generate_file_rst

    end_after(seconds)
    _work_in(folder, topic.snippet.parent)
    heard = _Heard()
    logging.getLogger("sphinx").addHandler(heard)
    end = partial(_end_fork, os.getpid(), answer)
    scrapers = (partial(_scrape, end), *conf["image_scrapers"])
    conf = {**conf, "image_scrapers": scrapers}
    said: _Said = []
    try:
        with _no_other_stdout(said):
            generate_file_rst(
                topic.snippet.name,
                topic.output.parent,
                topic.snippet.parent,
                conf,
            )
    except (Exception, SystemExit) as error:
        end()
        said = [_cause(error, topic)]
    else:
        said += [(1, message) for message in heard.messages]
    answer.send(said)


def _work_in(folder: str, source: Path) -> None:
    """Let sphinx-gallery work in a folder, and not in that of a program."""
    from sphinx_gallery import gen_rst

    def change(path: Any) -> None:
        os.chdir(folder if path == source else path)

    gen_rst.os = SimpleNamespace(**{**vars(os), "chdir": change})


def end_after(seconds: int) -> None:
    """End this process after a time, though nobody may be left to wait.

    An alarm does so whatever the process does; a thread can be kept waiting.
    """
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    else:
        timer = threading.Timer(seconds, os._exit, [_TOO_LONG])
        timer.daemon = True
        timer.start()


def _scrape(end: partial[None], *_: object) -> str:
    """Draw nothing; called behind each block of code, in whatever runs it."""
    end()
    return ""


def _end_fork(process: int, answer: Connection) -> None:
    """End a fork of the program that goes on as if it were the program.

    It would write the outputs a second time.
    """
    if os.getpid() != process:
        answer.send([(1, "goes on in a fork of it: end that by os._exit")])
        os._exit(0)


def _cause(error: BaseException, topic: Topic) -> tuple[int, str]:
    """Return an error that a program did not catch, with its line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [each for each in frames if each.filename == str(topic.snippet)]
    line = (own[-1].lineno or 1) if own else 1
    what = " ".join(str(error).split())
    return line, f"{type(error).__name__}: {what}"


@contextlib.contextmanager
def _no_other_stdout(said: _Said) -> Iterator[None]:
    """Say what was written past Python's ``sys.stdout``: no page shows it."""
    with tempfile.TemporaryFile() as file:
        console = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            yield
        finally:
            os.dup2(console, 1)
            os.close(console)
        file.seek(0)
        if written := file.read(_SHOWN).decode(errors="replace").strip():
            message = (
                f"writes past sys.stdout, where no page shows it: {written!r}"
            )
            said.append((1, message))
