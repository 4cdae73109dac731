"""The claims of docs/memory/batch_size.md."""

import math

import pytest
import torch

from extensions.files.failures import no_error


def test_the_cpu_has_another_error(snippet, capsys):
    snippet.after("the-error")

    assert capsys.readouterr().out == "True\nFalse\n"
    assert issubclass(torch.OutOfMemoryError, RuntimeError)


def test_the_cpu_has_another_error__but_the_stand_in_has_not(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "    torch.empty(2**50)  # on the CPU\n", "    train_step(data)\n"
    )
    fails(test_the_cpu_has_another_error, edited, capsys)


def test_the_running_loop_keeps_its_loader(snippet):
    run = snippet.after("well-known")

    assert run.batch_size == 38
    assert run.loader.batch_size == 38
    assert run.trained == [20]  # what 40 and 40 leave of 100


def test_the_running_loop_keeps_its_loader__but_a_new_loop_does_not(
    snippet, fails
):
    edited = snippet.edit(
        "print(trained, batch_size)",
        "trained += [train_step(batch) for batch in DataLoader(data, 20)]",
    )
    fails(test_the_running_loop_keeps_its_loader, edited)


def test_failed_batches_are_skipped(snippet):
    run = snippet.after("well-known")

    assert len(run.data) - sum(run.trained) == 80


def test_failed_batches_are_skipped__but_not_if_they_fit(snippet, fails):
    edited = snippet.edit("LIMIT = 37", "LIMIT = 40")
    fails(test_failed_batches_are_skipped, edited)


def test_bugs_are_swallowed(snippet, capsys):
    with no_error():
        run = snippet.after("swallowed")

    assert run.tries == 3
    assert "batch_size=0" in capsys.readouterr().out


def test_bugs_are_swallowed__but_not_by_the_right_error(
    snippet, capsys, fails
):
    rest = "            batch_size -= 1\n            Data"
    edited = snippet.edit(
        f"        except RuntimeError:\n{rest}",
        f"        except torch.OutOfMemoryError:\n{rest}",
    )
    fails(test_bugs_are_swallowed, edited, capsys)


def test_the_search_finds_the_limit(snippet):
    run = snippet.after("result")

    assert run.best == 37
    assert len(run.tried) == 12


def test_the_search_finds_the_limit__but_not_beyond_most(snippet, fails):
    fails(test_the_search_finds_the_limit, snippet.edit("most=100", "most=30"))


def test_the_search_is_short(snippet):
    run = snippet.after("search")

    for limit in range(101):

        def try_batch(size, limit=limit):
            if size > limit:
                raise torch.OutOfMemoryError

        best, tried = run.largest_batch(try_batch, most=100)
        assert best == limit
        assert len(tried) <= 2 * math.log2(max(limit, 1)) + 2


def test_the_search_is_short__but_not_one_by_one(snippet, fails):
    edited = snippet.edit(
        "low, size = size, size * 2", "low, size = size, size + 1"
    )
    fails(test_the_search_is_short, edited)


def test_recover_outside_the_handler(snippet):
    run = snippet.after("recover")

    assert not run.recovers(inside=True)
    assert run.recovers(inside=False)


def test_recover_outside_the_handler__but_not_if_the_error_is_kept(
    snippet, fails
):
    edited = snippet.edit(
        "Error:\n        failed = True\n        if inside:",
        "Error as error:\n        kept = error\n"
        "        failed = True\n        if inside:",
    )
    fails(test_recover_outside_the_handler, edited)


def test_every_sample_is_trained(snippet):
    run = snippet.after("nothing-skipped")

    assert run.seen == run.data.tolist()
    assert run.final_size == 20


def test_every_sample_is_trained__but_not_if_failures_move_on(snippet, fails):
    edited = snippet.edit(
        "            batch_size //= 2\n",
        "            rows = rows[batch_size:]\n            batch_size //= 2\n",
    )
    fails(test_every_sample_is_trained, edited)


@pytest.mark.cuda
def test_the_search_works_on_cuda(snippet):
    run = snippet.after("on-cuda")

    assert run.fitting <= run.real <= run.fitting + 2


@pytest.mark.cuda
def test_the_search_works_on_cuda__but_not_beyond_most(snippet, fails):
    edited = snippet.edit("most=int(2 * fitting)", "most=int(fitting - 1)")
    fails(test_the_search_works_on_cuda, edited)
