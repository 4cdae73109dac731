"""The claims of gallery/find_the_batch_size.py."""

import math

import pytest
import torch

without_cuda = pytest.mark.skipif(
    torch.cuda.is_available(), reason="a device has no budget to change"
)


def test_the_best_fits_and_one_more_does_not(snippet):
    run = snippet.after("search")

    assert 1 < run.best < run.MOST
    assert run.fits(run.best)
    assert not run.fits(run.best + 1)


@without_cuda
def test_the_best_fits_and_one_more_does_not__but_not_at_most(snippet, fails):
    edited = snippet.edit("MOST = 4096", "MOST = 64")
    fails(test_the_best_fits_and_one_more_does_not, edited)


def test_each_size_is_tried_once(snippet):
    run = snippet.after("search")
    asked = []

    def counted(size):
        asked.append(size)
        return size <= run.best

    run.largest_batch.__globals__["fits"] = counted
    run.largest_batch(run.MOST)
    assert len(asked) == len(set(asked))
    assert len(asked) <= 2 * math.log2(run.best) + 2


def test_each_size_is_tried_once__but_not_one_by_one(snippet, fails):
    edited = snippet.edit("min(2 * size, most)", "size + 1")
    fails(test_each_size_is_tried_once, edited)


@without_cuda
def test_all_that_fits_is_found(snippet):
    run = snippet.edit("3_000_000", "10**12").after("search")

    assert run.best == run.MOST


@without_cuda
def test_all_that_fits_is_found__but_not_within_the_budget(snippet, fails):
    edited = snippet.edit("BUDGET = ", "BUDGET = 0 * ")
    fails(test_all_that_fits_is_found, edited)
