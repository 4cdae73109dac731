"""Spawned processes that find torch there: to import it takes seconds."""

import os
import sys
import traceback
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

_START = util.spawnv_passfds


def _fork(path, command, files):
    """Let a fork do what a new Python would do with this command.

    It runs the main file anew, and reads the pickle of what it is to do; or
    it forks others, until nobody has the other end of its pipe.
    """
    source = command[command.index("-c") + 1]
    if "resource_tracker" in source:
        return _START(path, command, files)
    if child := os.fork():
        return child
    code = 1
    try:
        # The other end of its pipe may have any number, and must not stay.
        inherited = {int(each.name) for each in Path("/dev/fd").iterdir()}
        for file in inherited - {*files}:
            with suppress(OSError):  # that of the list itself is gone
                if any(os.path.sameopenfile(file, each) for each in files):
                    os.close(file)
        util._run_after_forkers()
        sys.modules["__main__"] = ModuleType("__main__")
        sys.argv = command[-2:]
        exec(source, {})
    except SystemExit as stop:
        code = stop.code or 0
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def with_torch():
    """Let `spawn` start processes that have the modules of this one."""
    return patch.object(util, "spawnv_passfds", _fork)
