"""Spawned processes that find torch there: to import it takes seconds."""

import os
import sys
import traceback
from multiprocessing import util
from types import ModuleType
from unittest.mock import patch

_START = util.spawnv_passfds


def _fork(path, command, files):
    """Let a fork do what a new Python would do with this command.

    It runs the main file anew, and reads the pickle of what it is to do.
    """
    if "--multiprocessing-fork" not in command:  # it tracks resources
        return _START(path, command, files)
    if child := os.fork():
        return child
    code = 1
    try:
        util._run_after_forkers()
        sys.modules["__main__"] = ModuleType("__main__")
        sys.argv = command[-2:]
        exec(command[-2], {})
    except SystemExit as stop:
        code = stop.code
    except Exception:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def with_torch():
    """Let `spawn` start processes that have the modules of this one."""
    return patch.object(util, "spawnv_passfds", _fork)
