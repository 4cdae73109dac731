"""A torch of a few lines, for what only has to find one.

The commands that test claims run pytest in a process of its own, where the
true torch takes seconds to import.
"""

__version__ = "2.13.0"


class Nothing:
    """Has every attribute, can be called with anything, and is false."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args, **kwargs):
        """Return nothing."""
        return self

    def __bool__(self):
        return False


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return Nothing()
