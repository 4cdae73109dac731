"""A clock for what may wait forever."""

import signal
from contextlib import contextmanager


def _ring(number, frame):
    # Python ignores what is raised in the hooks of a fork, one of which gives
    # back the lock of logging: whichever thread logs next would wait forever.
    if frame.f_globals.get("__name__") != "logging":
        raise TimeoutError


@contextmanager
def alarm(seconds):
    """Raise a TimeoutError in the main thread after some seconds.

    And again every five, if the first rings where Python ignores it.
    """
    before = signal.signal(signal.SIGALRM, _ring)
    signal.setitimer(signal.ITIMER_REAL, seconds, 5)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
