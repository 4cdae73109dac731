"""Run each stale program, before sphinx-gallery collects them.

sphinx-gallery then finds that every program has run, and only lists them.
"""

from __future__ import annotations

import contextlib
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging
from sphinx.util.display import status_iterator
from sphinx_gallery import gen_gallery

from extensions.build.errors import stop
from extensions.core.files import Problem, json_of, text_of
from extensions.core.topics import Topic, topics
from extensions.programs import program_process, stamp

if TYPE_CHECKING:
    from sphinx.application import Sphinx

logger = logging.getLogger(__name__)


class Runner:
    """What the programs of one build run with."""

    def __init__(self, root: Path, settings: str) -> None:
        self.root = root
        self.settings = settings
        """sphinx-gallery's, as conf.py has them."""

    def stale(self) -> dict[Topic, list[str]]:
        """Return the programs that have to run, each with the reason."""
        found = {
            topic: stamp.why_stale(topic, self.settings)
            for topic in topics(self.root)
        }
        return {topic: why for topic, why in found.items() if why}

    def begin(self) -> None:
        """Import what the stale programs need, while Sphinx begins."""
        with contextlib.suppress(Problem):  # which a rule will report
            if stale := self.stale():
                texts = [text_of(topic.snippet) for topic in stale]
                program_process.import_once("".join(texts))

    def run_stale(self, app: Sphinx) -> None:
        """Run the programs that have to, then say all faults."""
        stamp.sweep(self.root)
        stale = self.stale()
        for topic, why in stale.items():
            logger.info("%s: run, because %s", topic.name, _because(why))
        order = sorted(stale, key=_seconds_last_time, reverse=True)
        for topic in order:
            stamp.forget(topic)
            thumbs = topic.output.parent / "images/thumb"
            thumbs.mkdir(parents=True, exist_ok=True)
        if broken := self.run(app, order):
            stop(broken)

    def run(self, app: Sphinx, order: list[Topic]) -> list[Problem]:
        """Run some programs, and note those with which nothing is wrong."""
        conf = app.config.sphinx_gallery_conf
        seconds = app.config.program_seconds
        broken: list[Problem] = []
        with ThreadPoolExecutor(max(1, app.parallel)) as pool:
            results = pool.map(
                lambda topic: program_process.run(topic, conf, seconds), order
            )
            shown = status_iterator(
                order,
                "running programs... ",
                length=len(order),
                stringify_func=lambda topic: topic.name,
            )
            for topic, wrong in zip(shown, results, strict=True):
                broken += wrong
                if not wrong:
                    stamp.note(topic, self.settings)
        return broken


def _because(why: list[str]) -> str:
    """Return in words why a program runs."""
    return why[0] if why == [stamp.NO_RUN] else f"{', '.join(why)} changed"


def _seconds_last_time(topic: Topic) -> float:
    """Return how long a program took; one that never ran takes the longest."""
    with contextlib.suppress(Problem, KeyError, TypeError, ValueError):
        return float(json_of(topic.output.with_suffix(".cost.json"))["time"])
    return 1e6 if topic.is_recipe else 1e5


def setup_runner(app: Sphinx) -> None:
    """Run the programs before sphinx-gallery lists them."""
    app.add_config_value("program_seconds", 60, "", int)
    root = Path(app.srcdir).parent
    home = Path.home()
    if not home.is_dir() or not os.access(home, os.W_OK):
        # Where Matplotlib keeps its list of fonts; it would say so.
        os.environ.setdefault("MPLCONFIGDIR", str(root / "build/matplotlib"))
    app.setup_extension("sphinx_gallery.gen_gallery")
    # Programs draw in processes of their own: to import Matplotlib here takes
    # a tenth of a build with nothing changed.
    gen_gallery._import_matplotlib = lambda: None
    # Before sphinx-gallery fills in what conf.py leaves open.
    conf = app.config.sphinx_gallery_conf
    settings = json.dumps(conf, sort_keys=True, default=repr)
    runner = Runner(root, settings)
    runner.begin()
    app.connect("builder-inited", runner.run_stale, priority=400)
