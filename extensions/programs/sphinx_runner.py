"""Run each program in a process of its own, before sphinx-gallery collects.

Inside Sphinx's own process, a program that ends itself would end the build,
and one that sets something would set it for all that follow. sphinx-gallery
then finds that every program has run, and only lists them.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import multiprocessing
import signal
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sphinx.util.display import status_iterator

from extensions.build.errors import stop
from extensions.core.problem import Problem
from extensions.core.reading import text_of
from extensions.core.topics import Topic, topics
from extensions.programs import stamp

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

# What takes seconds to import, by a word of the programs that need it. The
# server of which each program's process is a fork imports it once. The first
# optimizer of a process imports torch's compiler.
SLOW = {
    "torch": "torch",
    "optim": "torch._dynamo",
    "pandas": "pandas",
    "matplotlib": "matplotlib.pyplot",
}
# What sphinx-gallery may write of one program: its code and its outputs.
LETTERS = 200_000


class Heard(logging.Handler):
    """Keeps what sphinx-gallery warns of while it runs a program."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one message."""
        self.messages.append(record.getMessage().strip())


def work(
    answer: Connection, topic: Topic, conf: dict[str, Any], seconds: int
) -> None:
    """Let sphinx-gallery run a program, and send what was wrong.

    The alarm ends the process whatever it does, and though nobody may be left
    to wait for it.
    """
    gc.freeze()  # sphinx-gallery collects garbage, but not all of torch's
    # sphinx-gallery looks up each attribute that a program names, and a page
    # may well show what torch warns of.
    warnings.filterwarnings("ignore", module="sphinx_gallery.backreferences")
    from sphinx_gallery.gen_rst import generate_file_rst

    signal.alarm(seconds)
    heard = Heard()
    logging.getLogger("sphinx").addHandler(heard)
    try:
        generate_file_rst(
            topic.snippet.name, topic.output.parent, topic.snippet.parent, conf
        )
    except (Exception, SystemExit) as error:
        frames = traceback.extract_tb(error.__traceback__)
        own = [each for each in frames if each.filename == str(topic.snippet)]
        line = own[-1].lineno if own else 1
        what = " ".join(str(error).split())
        answer.send([(line, f"{type(error).__name__}: {what}")])
    else:
        answer.send([(1, message) for message in heard.messages])


def run(topic: Topic, conf: dict[str, Any], seconds: int) -> list[Problem]:
    """Run a program in a process of its own; return all that was wrong."""
    processes = multiprocessing.get_context("forkserver")
    receiver, sender = processes.Pipe(duplex=False)
    process = processes.Process(
        target=work, args=(sender, topic, conf, seconds)
    )
    process.start()
    sender.close()
    said: list[tuple[int, str]] | None = None
    with contextlib.suppress(EOFError):  # the process has ended without a word
        said = receiver.recv()
    process.join()
    ending = -(process.exitcode or 0)
    if ending == signal.SIGALRM:
        what = "the program" if said is None else "a thread that it left"
        said = [(1, f"was ended after {seconds} s: {what} went on")]
    elif ending > 0:
        said = [(1, f"was ended by {signal.Signals(ending).name}")]
    elif said is None:
        said = [(1, "ends its own process, without a word")]
    elif not said and (letters := len(text_of(topic.output))) > LETTERS:
        said = [(1, f"prints {letters:,} characters, {LETTERS:,} at most")]
    return [Problem(topic.snippet, line, message) for line, message in said]


def stale_in(root: Path) -> list[Topic]:
    """Return the programs that have not run as they are now."""
    return [topic for topic in topics(root) if not stamp.has_run(topic)]


def import_slow(app: Sphinx, config: Config) -> None:
    """Let the server import what is slow, while Sphinx begins."""
    if stale := stale_in(Path(app.srcdir).parent):
        text = "".join(text_of(topic.snippet) for topic in stale)
        slow = [module for word, module in SLOW.items() if word in text]
        forkserver.set_forkserver_preload([*slow, "sphinx_gallery.gen_rst"])
        forkserver.ensure_running()


def run_stale(app: Sphinx) -> None:
    """Run every program that has not run as it is now, then say all faults."""
    root = Path(app.srcdir).parent
    stamp.sweep(root)
    stale = stale_in(root)
    if not stale:
        return
    conf = app.config.sphinx_gallery_conf
    seconds = app.config.program_seconds
    for topic in stale:
        stamp.forget(topic)
        thumbs = topic.output.parent / "images/thumb"
        thumbs.mkdir(parents=True, exist_ok=True)
    stale.sort(key=lambda topic: not topic.is_recipe)  # the longest first
    broken: list[Problem] = []
    with ThreadPoolExecutor(max(1, app.parallel)) as pool:
        results = pool.map(lambda topic: run(topic, conf, seconds), stale)
        for topic, wrong in zip(
            status_iterator(
                stale,
                "running programs... ",
                length=len(stale),
                stringify_func=lambda topic: topic.name,
            ),
            results,
            strict=True,
        ):
            broken += wrong
            if not wrong:
                stamp.note(topic)
    if broken:
        stop(broken)


def setup_runner(app: Sphinx) -> None:
    """Run the programs before sphinx-gallery does."""
    app.add_config_value("program_seconds", 60, "", int)
    app.connect("config-inited", import_slow)
    app.connect("builder-inited", run_stale)
