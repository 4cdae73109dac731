"""The claims of gallery/loader_workers.py."""

import os


def test_the_number_of_workers_changes_no_sample(snippet):
    loaded = snippet.after("check").loaded

    assert list(loaded) == [0, 1, 2, 4]
    for indices, _ in loaded.values():
        assert indices == list(range(64))


def test_the_number_of_workers_changes_no_sample__but_shuffling(
    snippet, fails
):
    edited = snippet.edit("batch_size=8,", "batch_size=8, shuffle=True,")
    fails(test_the_number_of_workers_changes_no_sample, edited)


def test_as_many_processes_as_workers(snippet):
    loaded = snippet.after("check").loaded

    assert loaded[0][1] == {os.getpid()}
    for workers in (1, 2, 4):
        assert len(loaded[workers][1]) == workers
        assert os.getpid() not in loaded[workers][1]


def test_as_many_processes_as_workers__but_not_of_one_batch(snippet, fails):
    edited = snippet.edit("batch_size=8,", "batch_size=64,")
    fails(test_as_many_processes_as_workers, edited)
