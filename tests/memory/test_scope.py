"""The claims of docs/memory/scope.md."""

import pytest
import torch


def test_the_last_batch_outlives_the_loop(snippet):
    run = snippet.after("after-the-loop")

    assert hasattr(run, "batch")
    assert run.batch is run.batches[-1]
    assert run.output.shape == (16, 1)
    assert run.loss.grad_fn is not None


def test_the_last_batch_outlives_the_loop__but_not_deleted(snippet, fails):
    edited = snippet.edit(
        "print(batch.shape, output.shape, loss.grad_fn.name())",
        "del batch, output, loss",
    )
    fails(test_the_last_batch_outlives_the_loop, edited)


def test_a_function_lets_go(snippet):
    assert snippet.after("in-a-function").alive == [False, False, False]


@pytest.mark.parametrize("new", ["return loss", "kept.append(output)"])
def test_a_function_lets_go__but_not_if_kept(snippet, new, fails):
    edited = (
        snippet.edit(
            "    return loss.item()\n\n\nwatched = []",
            f"    {new}\n\n\nkept = []\nwatched = []",
        )
        .edit("    handle(batch)\n", "    kept.append(handle(batch))\n")
        .edit(
            "    loss = output.square().mean()\n    watched",
            "    loss = output\n    watched",
        )
    )
    fails(test_a_function_lets_go, edited)


def test_two_outputs_live_at_once(snippet):
    run = snippet.after("two-at-once")

    assert run.most_alive(delete_first=False) == 2
    assert run.most_alive(delete_first=True) == 1


def test_two_outputs_live_at_once__but_not_if_deleted(snippet, fails):
    edited = snippet.edit("if delete_first:", "if True:")
    fails(test_two_outputs_live_at_once, edited)


def test_circles_wait_for_the_collector(snippet):
    run = snippet.after("cycle")

    assert run.before_collecting
    assert not run.after_collecting


def test_circles_wait_for_the_collector__but_not_straight_lines(
    snippet, fails
):
    edited = snippet.edit("self.me = self  # a circle", "self.me = None  # no")
    fails(test_circles_wait_for_the_collector, edited)


def test_a_traceback_keeps_tensors(snippet):
    run = snippet.after("traceback")

    assert run.inside_the_handler
    assert not run.after_the_handler


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "except RuntimeError:\n    inside",
            "except RuntimeError as error:\n    kept = error\n    inside",
        ),
        (
            "    raise RuntimeError(",
            "    del large\n    raise RuntimeError(",
        ),
    ],
)
def test_a_traceback_keeps_tensors__but_not(snippet, old, new, fails):
    fails(test_a_traceback_keeps_tensors, snippet.edit(old, new))


def test_without_a_reset_the_fit_fails(snippet):
    run = snippet.after("compare-resets")

    assert run.reset < 1e-4
    assert run.not_reset > 1


def test_without_a_reset_the_fit_fails__but_not_with_one(snippet, fails):
    edited = snippet.edit(
        "train(pairs, without_reset)", "train(pairs, with_reset)"
    )
    fails(test_without_a_reset_the_fit_fails, edited)


def test_the_misspelt_name_is_an_error(snippet, capsys):
    snippet.after("misspelt")

    assert capsys.readouterr().out.endswith("name 'output' is not defined\n")


def test_the_misspelt_name_is_an_error__but_not_if_one_is_left(
    snippet, capsys, fails
):
    edited = snippet.edit(
        'names = {"pairs": pairs}',
        'names = {"pairs": pairs, "output": model.bias}',
    )
    fails(test_the_misspelt_name_is_an_error, edited, capsys)


@pytest.mark.cuda
def test_cuda_frees_at_once(snippet):
    run = snippet.after("on-cuda")

    assert run.freed_at_once >= 2**30
    assert run.still_busy


@pytest.mark.cuda
def test_cuda_frees_at_once__but_not_what_has_a_second_name(snippet, fails):
    edited = snippet.edit(
        "    del large\n", "    second = large\n    del large\n"
    )
    fails(test_cuda_frees_at_once, edited)


@pytest.mark.cuda
def test_synchronize_frees_nothing(snippet):
    run = snippet.after("synchronize")

    assert run.after_synchronize == run.gauges


@pytest.mark.cuda
def test_synchronize_frees_nothing__but_emptying_does(snippet, fails):
    edited = snippet.edit(
        "    torch.cuda.synchronize()\n    after_synchronize",
        "    torch.cuda.empty_cache()\n    after_synchronize",
    )
    fails(test_synchronize_frees_nothing, edited)


@pytest.mark.cuda
def test_empty_cache_gives_back(snippet):
    run = snippet.after("synchronize")

    assert run.after_emptying < run.gauges[1]


@pytest.mark.cuda
def test_empty_cache_gives_back__but_not_left_out(snippet, fails):
    edited = snippet.edit("    torch.cuda.empty_cache()\n", "")
    fails(test_empty_cache_gives_back, edited)
    assert torch.cuda.memory_reserved() > 0
