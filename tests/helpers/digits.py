"""The digits of scikit-learn, which many programs load."""

import sys
from copy import deepcopy
from functools import cache

from tests.helpers.forks import import_once


@cache
def read_once():
    """Let `load_digits` hand out copies: to read its file takes longer."""
    import_once("sklearn.datasets")
    if datasets := sys.modules.get("sklearn.datasets"):
        read = cache(datasets.load_digits)
        datasets.load_digits = lambda **options: deepcopy(read(**options))
