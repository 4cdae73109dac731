"""The digits of scikit-learn, which parses their file at each call."""

import sys
from functools import cache

import pytest


@cache
def _parsed(load, **names):
    return load(**names)


@pytest.fixture(autouse=True)
def digits_are_parsed_once(monkeypatch):
    """Give each program a copy: to parse takes longer than most of them."""
    base = sys.modules.get("sklearn.datasets._base")
    load = getattr(base, "load_gzip_compressed_csv_data", None)

    def copied(**names):
        data, description = _parsed(load, **names)
        return data.copy(), description

    if load:
        monkeypatch.setattr(base, load.__name__, copied)
