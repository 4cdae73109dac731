"""The claims of docs/data/loading.md."""

import functools
import subprocess
import sys
import traceback

import pytest
import torch
from torch.utils.data import TensorDataset


def test_the_last_batch_is_smaller(snippet):
    run = snippet.after("batches")

    assert len(run.loader) == 3
    assert run.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_the_last_batch_is_smaller__but_not_if_they_divide(snippet, fails):
    edited = snippet.edit(
        "(Numbers(), batch_size=4)", "(Numbers(), batch_size=5)"
    )
    fails(test_the_last_batch_is_smaller, edited)


def test_floats_become_float64(snippet):
    first = snippet.after("collate").first

    assert first["score"].dtype == torch.float64
    assert first["count"].dtype == torch.int64
    assert first["name"] == ["0", "1"]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("index / 2", "torch.tensor(index / 2)"),
        ('"count": index', '"count": float(index)'),
    ],
)
def test_floats_become_float64__but_not_tensors(snippet, old, new, fails):
    fails(test_floats_become_float64, snippet.edit(old, new))


def test_dropped_samples_are_never_seen(snippet):
    run = snippet.after("drop-last")

    assert run.seen == [0, 1, 2, 3, 4, 5, 6, 7]
    assert len(run.training) == 2


def test_dropped_samples_are_never_seen__but_all_are_otherwise(snippet, fails):
    edited = snippet.edit("batch_size=4, drop_last=True", "batch_size=4")
    fails(test_dropped_samples_are_never_seen, edited)


def test_a_small_dataset_vanishes(snippet):
    assert snippet.after("drop-last").too_small == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("batch_size=16, drop_last=True", "batch_size=16"),
        ("batch_size=16, drop_last=True", "batch_size=10, drop_last=True"),
    ],
)
def test_a_small_dataset_vanishes__but_not_if_kept(snippet, old, new, fails):
    fails(test_a_small_dataset_vanishes, snippet.edit(old, new))


def test_batch_norm_needs_two_samples(snippet, shape=(1, 3)):
    run = snippet.after("batch-of-one")

    with pytest.raises(ValueError, match="more than 1 value per channel"):
        run.norm(torch.ones(shape))
    assert run.norm(torch.ones(2, 3)).shape == (2, 3)


def test_batch_norm_needs_two_samples__but_not_in_evaluation(snippet, fails):
    edited = snippet.edit("nn.BatchNorm1d(3)", "nn.BatchNorm1d(3).eval()")
    fails(test_batch_norm_needs_two_samples, edited)


def test_batch_norm_needs_two_samples__but_not_of_a_length(snippet, fails):
    fails(test_batch_norm_needs_two_samples, snippet, (1, 3, 5))


def test_each_epoch_has_its_order(snippet):
    run = snippet.after("shuffle")

    first, second = run.orders()
    assert first != second
    assert sorted(first) == sorted(second) == list(range(10))
    assert run.orders() == [first, second]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (", shuffle=True", ""),
        (".manual_seed(0)\n    loader", "\n    generator.seed()\n    loader"),
        (
            "torch.cat(list(loader)).tolist() for",
            "(generator.manual_seed(0), [*loader])[1] for",
        ),
    ],
)
def test_each_epoch_has_its_order__but_not(snippet, old, new, fails):
    fails(test_each_epoch_has_its_order, snippet.edit(old, new))


def test_workers_take_turns(snippet):
    run = snippet.after("workers")

    assert run.by_workers == [
        ([0, 1], [0, 0]),
        ([2, 3], [1, 1]),
        ([4, 5], [0, 0]),
        ([6, 7], [1, 1]),
        ([8, 9], [0, 0]),
    ]


def test_workers_take_turns__but_one_takes_all(snippet, fails):
    edited = snippet.edit(
        "num_workers=2,\n        multi", "num_workers=1,\n        multi"
    )
    fails(test_workers_take_turns, edited)


def test_workers_take_turns__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        "num_workers=2,\n        multi",
        "num_workers=2,\n        in_order=False,\n        multi",
    ).edit(
        "        self.calls += 1\n        worker",
        "        import time\n\n"
        "        time.sleep(0.5 * (index == 0))\n        worker",
    )
    fails(test_workers_take_turns, edited)


def test_workers_have_copies(snippet):
    run = snippet.after("workers")

    assert run.dataset.calls == 0
    run.dataset[0]
    assert run.dataset.calls == 1


def test_workers_have_copies__but_not_without_workers(snippet, fails):
    edited = snippet.edit(
        'num_workers=2,\n        multiprocessing_context="fork"',
        "num_workers=0",
    )
    fails(test_workers_have_copies, edited)


def test_persistent_workers_stay(snippet):
    run = snippet.after("persistent")

    assert run.new == 4
    assert run.kept == 2


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            "processes(persistent_workers=True)",
            "processes(persistent_workers=False)",
        ),
        (
            "processes(persistent_workers=False)",
            "processes(persistent_workers=True)",
        ),
    ],
)
def test_persistent_workers_stay__but_not_otherwise(snippet, old, new, fails):
    fails(test_persistent_workers_stay, snippet.edit(old, new))


def test_workers_have_copies__but_not_of_shared_memory(snippet, fails):
    edited = snippet.edit(
        "class Who(Numbers):\n    calls = 0\n",
        "class Who(Numbers):\n    calls = torch.zeros(1).share_memory_()\n",
    )
    fails(test_workers_have_copies, edited)


def test_persistent_workers_are_stale(snippet):
    run = snippet.after("compare-epochs")

    assert run.stale == [0, 0, 0]
    assert run.current == [0, 1, 2]


def test_persistent_workers_are_stale__but_not_in_shared_memory(
    snippet, fails
):
    edited = (
        snippet.edit(
            "    epoch = 0\n", "    epoch = torch.zeros(1).share_memory_()\n"
        )
        .edit("return self.epoch\n", "return int(self.epoch)\n")
        .edit(
            "for dataset.epoch in range(3):\n",
            "for number in range(3):\n        dataset.epoch.fill_(number)\n",
        )
    )
    fails(test_persistent_workers_are_stale, edited)


def test_prefetch_is_per_worker(snippet):
    run = snippet.after("prefetch")

    assert run.by_one[0] == 3
    assert run.by_two[0] == 6


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loaded_ahead(6, num_workers=2", "loaded_ahead(3, num_workers=1"),
        (
            "num_workers=1, prefetch_factor=3",
            "num_workers=1, prefetch_factor=4",
        ),
    ],
)
def test_prefetch_is_per_worker__but_not_of_one(snippet, old, new, fails):
    fails(test_prefetch_is_per_worker, snippet.edit(old, new))


def test_one_out_one_in(snippet):
    run = snippet.after("prefetch")

    for before, after in (run.by_one, run.by_two, run.by_default):
        assert after == before + 1


def test_one_out_one_in__but_none_in_without_one_out(snippet, fails):
    edited = snippet.edit("    next(batches)\n", "").edit(
        "expected + 1,", "expected,"
    )
    fails(test_one_out_one_in, edited)


def test_two_batches_by_default(snippet):
    assert snippet.after("prefetch").by_default[0] == 4


def test_two_batches_by_default__but_not_with_a_factor(snippet, fails):
    edited = snippet.edit(
        "loaded_ahead(4, num_workers=2)",
        "loaded_ahead(2, num_workers=2, prefetch_factor=1)",
    )
    fails(test_two_batches_by_default, edited)


def test_prefetch_needs_workers(snippet, factor=2):
    run = snippet.after("prefetch-alone")

    with pytest.raises(ValueError, match="num_workers > 0"):
        run.DataLoader(run.Numbers(), prefetch_factor=factor)
    run.DataLoader(run.Numbers(), prefetch_factor=2, num_workers=1)


def test_prefetch_needs_workers__but_it_may_be_none(snippet, fails):
    fails(test_prefetch_needs_workers, snippet, None)


def test_more_workers_than_cores_warns(snippet):
    caught = snippet.after("too-many-workers").caught

    assert len(caught) == 1
    [warning] = caught
    assert "suggested max number of worker" in str(warning.message)


def test_more_workers_than_cores_warns__but_one_does_not(snippet, fails):
    edited = snippet.edit("num_workers=cores + 1", "num_workers=1")
    fails(test_more_workers_than_cores_warns, edited)


def test_whole_batches_in_one_call(snippet):
    run = snippet.after("whole-batches")

    assert run.whole == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
    assert run.WholeBatches.calls == 2


def test_whole_batches_in_one_call__but_not_sample_by_sample(snippet, fails):
    edited = snippet.edit(
        "def __getitems__(self, indices):", "def __getitem__(self, indices):"
    ).edit("return list(indices)", "return indices")
    fails(test_whole_batches_in_one_call, edited)


DIFFERENT = "different among 20"


def test_workers_have_seeds_of_their_own(snippet):
    rows = snippet.after("two-epochs").rows

    for name in ("torch", "random", "numpy.random"):
        assert rows[name] == {DIFFERENT: 20}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.rand(())", "torch.rand((), generator=torch.Generator())"),
        ('"random": random.random()', '"random": random.Random(0).random()'),
        ("np.random.random()", "np.random.RandomState(0).random()"),
    ],
)
def test_workers_have_seeds_of_their_own__but_not_if_seeded(
    snippet, old, new, fails
):
    fails(test_workers_have_seeds_of_their_own, snippet.edit(old, new))


def test_a_copied_generator_repeats(snippet):
    run = snippet.after("two-epochs")

    # Worker 0 loads six samples of an epoch, worker 1 four.
    own = torch.cat([batch["own generator"] for batch in run.samples])
    first = own[[0, 1, 4, 5, 8, 9]]
    assert torch.equal(own[[2, 3, 6, 7]], first[:4])
    assert torch.equal(own[[10, 11, 14, 15, 18, 19]], first)
    assert len(own.unique()) == 6


def test_a_copied_generator_repeats__but_not_if_seeded_there(snippet, fails):
    edited = snippet.edit(
        '            "own generator": self.own.random(),',
        '            "own generator": np.random.default_rng().random(),',
    )
    fails(test_a_copied_generator_repeats, edited)


def test_the_seed_of_the_worker_mends_it(snippet):
    run = snippet.after("own-seed")

    assert len(run.numbers) == len(run.numbers.unique()) == 20


def test_the_seed_of_the_worker_mends_it__but_not_one_for_all(snippet, fails):
    edited = snippet.edit(
        "default_rng(get_worker_info().seed)", "default_rng(7)"
    )
    fails(test_the_seed_of_the_worker_mends_it, edited)


def test_errors_keep_their_type(snippet):
    run = snippet.after("report")

    assert run.message.startswith(
        "Caught ZeroDivisionError in DataLoader worker"
    )
    assert "in __getitem__" in run.message
    assert run.message.endswith("ZeroDivisionError: division by zero\n")


def test_errors_keep_their_type__but_tell_less_without_workers(snippet, fails):
    edited = snippet.edit(
        "two_workers(Failing())", "list(DataLoader(Failing()))"
    )
    fails(test_errors_keep_their_type, edited)


def raised_in_worker(snippet, action):
    run = snippet.after("two-workers")

    class Fails(run.Numbers):
        def __getitem__(self, index):
            return action()

    with pytest.raises(Exception, match="Caught") as raised:
        run.two_workers(Fails())
    traceback.clear_frames(raised.value.__traceback__)  # ends the workers
    return raised.value


def test_some_errors_change_their_type(snippet, action=b"\xff".decode):
    error = raised_in_worker(snippet, action)

    assert type(error) is RuntimeError
    assert "Caught UnicodeDecodeError in DataLoader worker" in str(error)


def test_some_errors_change_their_type__but_most_do_not(snippet, fails):
    most = functools.partial(int, "one")
    fails(test_some_errors_change_their_type, snippet, most)


def test_spawned_workers_take_no_lambda(snippet, capsys):
    snippet.after("compare-starts")

    fork, spawn = capsys.readouterr().out.splitlines()[-2:]
    assert fork == "fork: [0]"
    assert spawn.startswith("spawn: Can't pickle local object")


def test_spawned_workers_take_no_lambda__but_a_global_function(
    snippet, capsys, fails
):
    edited = snippet.edit("lambda samples: samples", "list")
    fails(test_spawned_workers_take_no_lambda, edited, capsys)


def test_spawning_needs_a_guard(snippet):
    run = snippet.after("guard")

    assert run.guarded.returncode == 0
    assert run.guarded.stdout == "a worker at work\n"
    assert "RuntimeError" in run.unguarded.stderr
    assert "an attempt has been made" in run.unguarded.stderr.lower()
    assert "a worker at work" not in run.unguarded.stdout


def test_spawning_needs_a_guard__but_forking_does_not(snippet, fails):
    edited = snippet.edit('get_context("spawn")', 'get_context("fork")')
    fails(test_spawning_needs_a_guard, edited)


LOADER = """
from torch.utils.data import DataLoader

GUARD:
    options = dict(num_workers=1, multiprocessing_context="spawn")
    print([int(each) for each in DataLoader(range(3), **options)])
"""


def loaded(folder, guard, start):
    path = folder / "program.py"
    path.write_text(LOADER.replace("GUARD", guard).replace("spawn", start))
    return subprocess.run(
        [sys.executable, path], check=False, capture_output=True, text=True
    )


def test_a_spawning_loader_needs_a_guard(tmp_path, start="spawn"):
    unguarded = loaded(tmp_path, "if True", start)
    guarded = loaded(tmp_path, 'if __name__ == "__main__"', start)

    assert guarded.stdout == "[0, 1, 2]\n"
    assert unguarded.stdout == ""
    assert "An attempt has been made to start" in unguarded.stderr


def test_a_spawning_loader_needs_a_guard__but_not_a_forking_one(
    tmp_path, fails
):
    fails(test_a_spawning_loader_needs_a_guard, tmp_path, "fork")


def written_by_a_worker(snippet, start, tensor):
    """Let worker 0 fill a tensor of ones with its number, and return it."""
    run = snippet.after("imports")
    loader = run.DataLoader(
        TensorDataset(tensor),
        num_workers=1,
        multiprocessing_context=start,
        worker_init_fn=functools.partial(torch.Tensor.fill_, tensor),
    )
    assert len(list(loader)) == 4
    return tensor


def test_spawned_workers_share_tensors(snippet, start="spawn"):
    tensor = written_by_a_worker(snippet, start, torch.ones(4))
    assert tensor.tolist() == [0, 0, 0, 0]


def test_spawned_workers_share_tensors__but_forked_ones_do_not(snippet, fails):
    fails(test_spawned_workers_share_tensors, snippet, "fork")


def test_forked_workers_copy_tensors(snippet, is_shared=False):
    tensor = torch.ones(4)
    if is_shared:
        tensor.share_memory_()
    written_by_a_worker(snippet, "fork", tensor)
    assert tensor.tolist() == [1, 1, 1, 1]


def test_forked_workers_copy_tensors__but_not_shared_ones(snippet, fails):
    fails(test_forked_workers_copy_tensors, snippet, True)
