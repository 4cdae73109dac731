"""The claims of docs/models/shared_weights.md."""

import copy
import io
import math
import warnings

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import (
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    update_bn,
)

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after

DIGITS = ("tie", "average", "digits")
RENEWED = ("tie", "average", "moved", "digits", "statistics", "renewed")

OPTIMIZERS = [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW]


def is_tied(model):
    return model.decoder.weight is model.embedding.weight


def bytes_of(state):
    file = io.BytesIO()
    torch.save(state, file)
    return file.tell()


# Tied weights


def test_both_layers_use_one_parameter(snippet, change=None):
    model = after(snippet, "tie").NextWord(words=5, features=3)
    if change:
        change(model)

    assert [name for name, _ in model.named_parameters()] == [
        "embedding.weight"
    ]
    with torch.no_grad():
        model.embedding.weight[2] = 7
    assert model.decoder.weight[2].tolist() == [7, 7, 7]
    assert sum(
        p.numel() for p in after(snippet, "tie").model.parameters()
    ) == (1000 * 256)


def test_both_layers_use_one_parameter__but_not_a_copy(snippet, fails):
    """A parameter made from a clone has numbers of its own."""
    old = "self.decoder.weight = self.embedding.weight"
    new = "self.decoder.weight = nn.Parameter(self.embedding.weight.clone())"
    fails(test_both_layers_use_one_parameter, snippet.edit(old, new))


def test_both_layers_use_one_parameter__but_not_untied(snippet, fails):
    """Without the assignment, each layer has a weight of its own."""
    old = "        self.decoder.weight = self.embedding.weight\n"
    fails(test_both_layers_use_one_parameter, snippet.edit(old, ""))


def test_both_layers_use_one_parameter__ends_with_weight_norm(snippet, fails):
    """`weight_norm` on one of the layers gives it parameters of its own."""

    def change(model):
        nn.utils.parametrizations.weight_norm(model.decoder)

    fails(test_both_layers_use_one_parameter, snippet, change)


def test_gradients_of_both_add_up(snippet, numbers=(2.0, 3.0), word=0):
    run = after(snippet, "tie", "gradient")
    assert run.scores.tolist() == [[4, 6]]
    assert run.tied.embedding.weight.grad.tolist() == [[7], [2]]

    count = len(numbers)
    tied = run.NextWord(words=count, features=1)
    apart = nn.Sequential(
        nn.Embedding(count, 1), nn.Linear(1, count, bias=False)
    )
    weights = torch.tensor(numbers)[:, None]
    with torch.no_grad():
        for weight in (tied.embedding.weight, *apart.parameters()):
            weight.copy_(weights)
    for model in (tied, apart):
        model(torch.tensor([word])).square().sum().backward()
    both = [each.weight.grad for each in apart]
    torch.testing.assert_close(tied.embedding.weight.grad, sum(both))
    assert all(each.any() for each in both)


@pytest.mark.parametrize(
    ("numbers", "word"),
    [((1.0, -2.0, 0.5), 1), ((4.0, 4.0), 1)],
    ids=["three words", "equal numbers"],
)
def test_gradients_of_both_add_up__also_with(snippet, numbers, word):
    test_gradients_of_both_add_up(snippet, numbers, word)


def test_gradients_of_both_add_up__but_not_detached(snippet, fails):
    """If you detach what the embedding gives, the decoder's part is left."""
    old = "self.decoder(self.embedding(words))"
    new = "self.decoder(self.embedding(words).detach())"
    fails(test_gradients_of_both_add_up, snippet.edit(old, new))


MOVES = {
    "another dtype": lambda model: model.to(torch.float16),
    "the CPU": lambda model: model.to("cpu"),
    "a copy": copy.deepcopy,
    "a converted copy": lambda model: copy.deepcopy(model).double(),
    "empty memory": lambda model: model.to_empty(device="cpu"),
    "shared memory": lambda model: model.share_memory(),
    "an average": lambda model: AveragedModel(model).module,
}


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_to_and_deepcopy_keep_it(snippet, move):
    run = after(snippet, "tie", "moved")
    moved = move(run.NextWord(words=5, features=3))

    assert is_tied(moved)
    assert is_tied(run.double)
    assert run.double.decoder.weight.dtype == torch.float64
    assert is_tied(run.model)
    assert run.model.decoder.weight.dtype == torch.float32


@pytest.mark.cuda
def test_to_and_deepcopy_keep_it__also_on_a_gpu(snippet):
    model = (
        after(snippet, "tie", "moved").NextWord(words=5, features=3).to("cuda")
    )
    assert is_tied(model)
    assert model.decoder.weight.is_cuda


def test_to_and_deepcopy_keep_it__but_not_converted_apart(snippet, fails):
    """If you wrap a converted weight, the two layers are apart."""
    edited = snippet.edit(
        "double = copy.deepcopy(model).to(torch.float64)\n",
        "double = copy.deepcopy(model)\n"
        "for each in (double.embedding, double.decoder):\n"
        "    each.weight = nn.Parameter(each.weight.double())\n",
    )
    fails(test_to_and_deepcopy_keep_it, edited, copy.deepcopy)


def test_to_and_deepcopy_keep_it__ends_on_meta(snippet, fails):
    """A move to the `meta` device makes a new parameter for each layer."""
    fails(test_to_and_deepcopy_keep_it, snippet, lambda each: each.to("meta"))


def test_a_file_holds_it_once(snippet, kept=copy.copy):
    run = after(snippet, "tie", "saved")
    state = kept(run.NextWord(words=1000, features=32).state_dict())

    assert list(state) == ["embedding.weight", "decoder.weight"]
    assert list(run.saved) == list(state)
    assert bytes_of(state) < 4 * 1000 * 32 + 3000
    loaded = run.NextWord(words=1000, features=32)
    with no_error():
        loaded.load_state_dict(state)
    assert torch.equal(loaded.embedding.weight, state["embedding.weight"])
    assert is_tied(loaded)
    assert is_tied(run.loaded)
    assert torch.equal(run.loaded.decoder.weight, run.model.decoder.weight)


def test_a_file_holds_it_once__but_not_untied(snippet, fails):
    """Two weights of their own take twice the space."""
    old = "        self.decoder.weight = self.embedding.weight\n"
    fails(test_a_file_holds_it_once, snippet.edit(old, ""))


def test_a_file_holds_it_once__ends_after_clones(snippet, fails):
    """A state dict of clones, as `{k: v.clone()}` makes, stores both."""

    def cloned(state):
        return {name: each.clone() for name, each in state.items()}

    fails(test_a_file_holds_it_once, snippet, cloned)


def test_a_file_holds_it_once__ends_with_two_sets_of_numbers(snippet, fails):
    """If the file comes from untied layers, the decoder's numbers are loaded
    last, and replace the embedding's without an error.
    """

    def apart(state):
        state = {name: each.clone() for name, each in state.items()}
        state["decoder.weight"] += 1
        return state

    fails(test_a_file_holds_it_once, snippet, apart)


def test_a_file_holds_it_once__ends_with_one_name(snippet, fails):
    """A file that has only the embedding's name lacks the decoder's."""

    def one_name(state):
        return {"embedding.weight": state["embedding.weight"]}

    fails(test_a_file_holds_it_once, snippet, one_name)


def test_a_file_holds_it_once__ends_after_assign(snippet, fails):
    """A state dict that was loaded with `assign=True` keeps a note of it, and
    unties the next model as well.
    """
    words = after(snippet, "tie", "saved").NextWord

    def used(state):
        words(words=1000, features=32).load_state_dict(state, assign=True)
        return state

    fails(test_a_file_holds_it_once, snippet, used)


def test_assign_unties(snippet, wrap=dict):
    run = after(snippet, "tie", "saved", "assigned")
    state = wrap(run.NextWord(words=5, features=3).state_dict())
    model, whole = (run.NextWord(words=5, features=3) for _ in range(2))
    whole.load_state_dict(state)
    model.load_state_dict(state, assign=True)

    for each in (model, run.assigned):
        assert len(list(each.parameters())) == 2
        assert not is_tied(each)
    for each in (model, whole):
        each(torch.tensor([1])).square().sum().backward()
    parts = [each.grad for each in model.parameters()]
    assert all(each.any() for each in parts)
    torch.testing.assert_close(sum(parts), whole.decoder.weight.grad)
    model.decoder.weight = model.embedding.weight
    assert is_tied(model)
    assert len(list(model.parameters())) == 1


def read_again(state):
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file)


def test_assign_unties__also_from_a_file(snippet):
    test_assign_unties(snippet, read_again)


def test_assign_unties__but_not_by_default(snippet, fails):
    """Without `assign=True`, the numbers are copied into the one parameter."""
    edited = snippet.edit("saved, assign=True", "saved")
    fails(test_assign_unties, edited)


def test_the_default_starts_high(snippet, seeds=(0,), features=256):
    run = after(snippet, "tie", "first-loss")
    losses = [
        nn.functional.cross_entropy(each(run.words), run.answers).item()
        for each in (run.large, run.NextWord())
    ]
    assert losses[0] > 200
    assert losses[1] == pytest.approx(math.log(1000), abs=0.05)

    for seed in seeds:
        torch.manual_seed(seed)
        model = run.NextWord(features=features)
        nn.init.normal_(model.embedding.weight)
        words, answers = torch.randint(1000, (2, 512))
        loss = nn.functional.cross_entropy(model(words), answers)
        assert loss.item() == pytest.approx(features, rel=0.1)


@pytest.mark.parametrize("features", [128, 512])
def test_the_default_starts_high__also_with(snippet, features):
    test_the_default_starts_high(snippet, (1, 2), features)


def test_the_default_starts_high__but_not_with_small_numbers(snippet, fails):
    """With a deviation of 0.02, the first loss is that of guessing."""
    old = "nn.init.normal_(large.embedding.weight)"
    new = "nn.init.normal_(large.embedding.weight, std=0.02)"
    fails(test_the_default_starts_high, snippet.edit(old, new))


def test_the_default_starts_high__but_not_the_other_way_round(snippet, fails):
    """If the embedding gets the decoder's weight, both have small numbers."""
    edited = snippet.edit(
        "nn.init.normal_(large.embedding.weight)",
        "large.decoder = nn.Linear(256, 1000, bias=False)\n"
        "large.embedding.weight = large.decoder.weight",
    )
    fails(test_the_default_starts_high, edited)


def test_the_default_starts_high__ends_with_few_features(snippet, fails):
    """With 8 features, other scores are as large, and the loss is higher than
    8.
    """
    fails(test_the_default_starts_high, snippet, (0,), 8)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_given_twice_it_moves_twice(snippet, optimizer, arranged=list):
    run = after(snippet, "tie", "twice")
    assert (run.layers.decoder.weight - run.before).tolist() == [
        [pytest.approx(-0.2, rel=1e-5)] * 2
    ] * 3
    moved = []
    for count in (2, 1):
        weight = nn.Parameter(torch.ones(3, 2))
        weight.grad = torch.ones(3, 2)
        options = {"lr": 0.1, "weight_decay": 0}
        with warnings.catch_warnings(action="ignore"), no_error():
            optimizer(arranged([weight] * count), **options).step()
        moved.append(1 - weight[0, 0].item())
    assert moved[0] == pytest.approx(2 * moved[1], rel=0.01)


def test_given_twice_it_moves_twice__but_not_by_parameters(snippet, fails):
    """`model.parameters()` yields the weight once."""
    old = "[*layers.embedding.parameters(), *layers.decoder.parameters()]"
    new = "[*layers.parameters()]"
    edited = snippet.edit(old, new).edit(
        "print(caught[0].message)", "print(caught)"
    )
    fails(test_given_twice_it_moves_twice, edited, torch.optim.SGD)


def test_given_twice_it_moves_twice__ends_in_two_groups(snippet, fails):
    """In two parameter groups, it raises `ValueError`."""
    sgd = torch.optim.SGD
    fails(test_given_twice_it_moves_twice, snippet, sgd, in_groups)


def test_given_twice_it_moves_twice__ends_with_lbfgs(snippet, fails):
    """`LBFGS` moves it as far as if it were given once."""
    fails(test_given_twice_it_moves_twice, snippet, OneStep)


class OneStep(torch.optim.LBFGS):
    """LBFGS with the gradients that are there."""

    def __init__(self, weights, lr, weight_decay):
        super().__init__(weights, lr, max_iter=1)

    def step(self):
        """Move along the gradients."""
        super().step(lambda: 0.0)


def in_groups(weights):
    return [{"params": [weight]} for weight in weights]


# Averages


def averages(numbers, dtype=torch.float32, **options):
    """Return what an average of a single weight is after each number."""
    weight = nn.Linear(1, 1, bias=False, dtype=dtype)
    average = AveragedModel(weight, **options)
    found = []
    for number in numbers:
        nn.init.constant_(weight.weight, number)
        average.update_parameters(weight)
        found.append(average.module.weight.item())
    return found


def test_each_update_mixes_in_a_part(
    snippet, decay=0.9, numbers=(5, -1, 2), dtype=torch.float32
):
    run = after(snippet, "tie", "average", "by-hand")
    assert run.steps == pytest.approx([1, 1.1, 1.29])

    layer = nn.Linear(2, 2)
    last = AveragedModel(layer, multi_avg_fn=run.get_ema_multi_avg_fn(0.0))
    sgd = torch.optim.SGD(layer.parameters(), lr=0.1)
    run.train(layer, last, [(torch.ones(1, 2), torch.tensor([0]))] * 2, sgd)
    torch.testing.assert_close(last.module.weight, layer.weight)

    average, expected = numbers[0], []
    for number in numbers:
        average = decay * average + (1 - decay) * number
        expected.append(average)
    ema = run.get_ema_multi_avg_fn(decay)
    found = averages(numbers, dtype, multi_avg_fn=ema)
    assert found == pytest.approx(expected)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.98, 0.999, 1.0])
def test_each_update_mixes_in_a_part__also_with(snippet, decay):
    test_each_update_mixes_in_a_part(snippet, decay, range(50))


def test_each_update_mixes_in_a_part__ends_in_16_bits(snippet, fails):
    """With `bfloat16` and a decay of 0.999, the steps are rounded away, and
    the average stands still.
    """
    numbers = (1.0, 1.5, 1.5)
    fails(
        test_each_update_mixes_in_a_part,
        snippet,
        0.999,
        numbers,
        torch.bfloat16,
    )


@edits(
    ("another decay", "_fn(0.9))\nsteps", "_fn(0.1))\nsteps"),
    (
        "no function",
        "multi_avg_fn=get_ema_multi_avg_fn(0.9))\nsteps",
        ")\nsteps",
    ),
)
def test_each_update_mixes_in_a_part__but_not_otherwise(
    snippet, old, new, fails
):
    """Another decay, or the plain mean, gives other numbers."""
    fails(test_each_update_mixes_in_a_part, snippet.edit(old, new))


def test_each_update_mixes_in_a_part__also_in_the_quiz(snippet):
    run = after(snippet, "tie", "average", "quiz")
    assert run.average.module.weight.item() == 4


def test_each_update_mixes_in_a_part__also_by_your_own_function(snippet):
    run = after(snippet, "tie", "average", "moved", "digits", *SOLUTION)
    assert run.wrong == []
    model, average = run.network(), run.network()
    average[5].weight.data.fill_(1), model[5].weight.data.fill_(2)
    model[1].num_batches_tracked.fill_(7)
    run.update(average, model, 0.75)
    assert average[5].weight.unique().tolist() == [1.25]
    assert average[1].num_batches_tracked == 7


SOLUTION = ("solution", "solution-checked")


def test_the_default_is_the_mean(
    snippet, numbers=(4.0, 4.0, 1.0, 7.0), dtype=torch.float32
):
    run = after(snippet, "tie", "average", "by-hand", "mean")
    assert run.mean.module.weight.item() == pytest.approx(3)
    assert run.mean.n_averaged == 3

    found = averages(numbers, dtype)
    for count, average in enumerate(found, 1):
        assert average == pytest.approx(sum(numbers[:count]) / count)


def test_the_default_is_the_mean__also_of_a_larger_number(snippet):
    edited = snippet.edit("(1.0, 2.0, 6.0)", "(1.0, 2.0, 9.0)")
    run = after(edited, "tie", "average", "by-hand", "mean")
    assert run.mean.module.weight.item() == pytest.approx(4)


def test_the_default_is_the_mean__ends_in_bfloat16(snippet, fails):
    """With weights in `bfloat16`: after many updates, what the next one adds
    is rounded away.
    """
    numbers = [1.0] * 500 + [2.0] * 500
    assert averages(numbers)[-1] == pytest.approx(1.5)
    assert averages(numbers, torch.bfloat16)[-1] == 1
    fails(test_the_default_is_the_mean, snippet, numbers, torch.bfloat16)


def test_the_default_is_the_mean__but_not_with_a_decay(snippet, fails):
    """With a function for a decay, later weights count more."""
    old = "mean = AveragedModel(layer)"
    new = "mean = AveragedModel(layer, multi_avg_fn=get_ema_multi_avg_fn(0.9))"
    fails(test_the_default_is_the_mean, snippet.edit(old, new))


def updated(run, updates=3, **options):
    """Return a model that moves, what its buffers were, and its average."""
    torch.manual_seed(0)
    model = run.network()
    ema = run.get_ema_multi_avg_fn(0.98)
    average = AveragedModel(model, multi_avg_fn=ema, **options)
    seen = {"running_mean": [], "running_var": []}
    for _ in range(updates):
        model(run.images[:50])
        with torch.no_grad():
            for each in model.parameters():
                each.add_(1)
        average.update_parameters(model)
        for name, each in seen.items():
            each.append(model[1].get_buffer(name).clone())
    return model, seen, average


def test_buffers_are_copied(snippet):
    run = after(snippet, *RENEWED[:-1])
    model, _, average = updated(run)

    for source, target in (
        (model, average.module),
        (run.other, run.copied.module),
    ):
        pairs = zip(target.buffers(), source.buffers(), strict=True)
        assert all(torch.equal(old, new) for old, new in pairs)
        assert not torch.equal(target[0].weight, source[0].weight)


def test_buffers_are_copied__but_not_with_use_buffers(snippet, fails):
    """With `use_buffers=True`, they are averaged as the weights are."""
    old = "copied = AveragedModel(other"
    edited = snippet.edit(old, f"{old}, use_buffers=True")
    fails(test_buffers_are_copied, edited)


INFINITE = (*RENEWED[:2], "infinite")


def test_infinite_buffers_become_nan(snippet, options=None):
    run = after(snippet, *INFINITE)
    assert run.with_mask.module.mask[0] == 0
    assert run.with_mask.module.mask[1].isnan()

    model = nn.Linear(2, 2)
    model.register_buffer("mask", torch.full((3, 3), -torch.inf).triu(1))
    average = AveragedModel(model, use_buffers=True, **(options or {}))
    average.update_parameters(model)
    assert not average.module.mask.isnan().any()
    average.update_parameters(model)
    assert average.module.mask.isnan().tolist() == [
        [False, True, True],
        [False, False, True],
        [False, False, False],
    ]


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_infinite_buffers_become_nan__also_with(snippet, decay):
    ema = get_ema_multi_avg_fn(decay)
    test_infinite_buffers_become_nan(snippet, {"multi_avg_fn": ema})


def test_infinite_buffers_become_nan__but_not_copied(snippet, fails):
    """Without `use_buffers=True`, the mask is copied."""
    edited = snippet.edit("ema, use_buffers=True)\nfor", "ema)\nfor")
    fails(test_infinite_buffers_become_nan, edited)


def test_infinite_buffers_become_nan__but_not_of_bool(snippet, fails):
    """A mask of `True` and `False` stays as it is with a decay."""
    edited = snippet.edit("[0.0, -torch.inf]", "[False, True]")
    fails(test_infinite_buffers_become_nan, edited)


def test_infinite_buffers_become_nan__ends_with_avg_fn(snippet, fails):
    """`avg_fn=get_ema_avg_fn(...)` adds two products, and takes no
    difference.
    """
    options = {"avg_fn": get_ema_avg_fn(0.9)}
    fails(test_infinite_buffers_become_nan, snippet, options)


GRAPH_LEAVES = "Only Tensors created explicitly by the user"
KEPT = ("tie", "average", "keeps-its-output")


def bars_copies(model):
    """Check that neither way copies a model."""
    for copied in (AveragedModel, copy.deepcopy):
        with pytest.raises(RuntimeError, match=GRAPH_LEAVES):
            copied(model)


def test_a_kept_result_bars_the_copy(snippet, model=None, inputs=None):
    run = after(snippet, *KEPT)
    assert getattr(run, "not_copied", "").startswith(GRAPH_LEAVES)
    with no_error():
        copy.deepcopy(run.Remembers(2, 2))
    model = model or run.Remembers(4, 3)
    model(torch.ones(2, 4) if inputs is None else inputs)
    bars_copies(model)


@pytest.mark.parametrize("place", ["a list", "a dict", "an inner layer"])
def test_a_kept_result_bars_the_copy__also_in(snippet, place):
    class Keeps(nn.Linear):
        def forward(self, x):
            result = super().forward(x)
            self.kept = [result] if place == "a list" else {"last": result}
            return result

    inner = Keeps(4, 3)
    model = nn.Sequential(inner) if place == "an inner layer" else inner
    test_a_kept_result_bars_the_copy(snippet, model)


def test_a_kept_result_bars_the_copy__but_not_detached(snippet, fails):
    """Then there is no graph on the model."""
    old = "super().forward(x)  #"
    edited = snippet.edit(old, "super().forward(x).detach()  #")
    fails(test_a_kept_result_bars_the_copy, edited)


def test_a_kept_result_bars_the_copy__but_not_without_gradients(
    snippet, fails
):
    """Under `no_grad`, the result has no graph."""
    old = "remembering(torch.ones(1, 2))"
    fails(
        test_a_kept_result_bars_the_copy,
        snippet.edit(old, f"torch.no_grad()({old[:11]})(torch.ones(1, 2))"),
    )


@torch.no_grad()
def batch_statistics(model, batches):
    """Return the mean over the batches of the mean and the variance."""
    axes = (0, 2, 3)
    inputs = [model[0](images) for images, _ in batches]
    means = torch.stack([each.mean(dim=axes) for each in inputs])
    variances = torch.stack([each.var(dim=axes) for each in inputs])
    return means.mean(dim=0), variances.mean(dim=0)


def test_update_bn_measures_again(snippet, size=16, training=False):
    run = after(snippet, *RENEWED)
    torch.manual_seed(1)
    batches = run.batches(size)
    average = copy.deepcopy(run.copied).train(training)
    mean, variance = batch_statistics(average.module, batches)
    update_bn(batches, average)

    assert_near(average.module[1].running_mean, mean)
    assert_near(average.module[1].running_var, variance)
    assert average.module.training is training
    assert average.module[1].momentum == 0.1
    whole, _ = batch_statistics(run.renewed.module, run.batches(1200))
    assert_near(run.renewed.module[1].running_mean, whole)


def assert_near(found, expected):
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("size", [50, 400], ids="in batches of {}".format)
@pytest.mark.parametrize("training", [True, False])
def test_update_bn_measures_again__also(snippet, size, training):
    test_update_bn_measures_again(snippet, size, training)


def test_update_bn_measures_again__but_not_without_it(snippet, fails):
    """Without the call, the numbers are those of the model."""
    edited = snippet.edit("update_bn(batches(), renewed)", "pass")
    fails(test_update_bn_measures_again, edited)


def test_update_bn_measures_again__also_nothing_without_batchnorm():
    """A model without BatchNorm has nothing to measure: no batch is read."""
    model = nn.Sequential(nn.Linear(2, 2), nn.LayerNorm(2))
    unread = iter([torch.ones(1, 2)])
    update_bn(unread, AveragedModel(model))
    assert next(unread).shape == (1, 2)


def test_eval_does_not_reach_the_average(snippet, move=nn.Module.eval):
    run = after(snippet, *DIGITS, "not-in-eval")
    assert not run.new.training
    assert run.kept.module[1].training

    model = run.network()
    average = AveragedModel(model)
    move(model)
    average.update_parameters(model)
    assert average.module.training
    outputs = [average(run.images[:n])[0] for n in (8, 80)]
    assert not torch.allclose(*outputs)
    average.eval()
    outputs = [average(run.images[:n])[0] for n in (8, 80)]
    torch.testing.assert_close(*outputs)


def test_eval_does_not_reach_the_average__but_made_in_eval(snippet, fails):
    """An average that is made after `eval()` copies the mode."""
    edited = snippet.edit(
        "kept = AveragedModel(new)\n\nnew.eval()",
        "kept = AveragedModel(new.eval())",
    )
    fails(test_eval_does_not_reach_the_average, edited)


WRAPPED = (*DIGITS, "wrapped")


def test_average_the_module_inside(snippet):
    run = after(snippet, *WRAPPED)
    outside, inside = run.both_averages
    plain = [*AveragedModel(run.network()).state_dict()]

    assert [*inside.state_dict()] == plain
    assert [name.count("module.") for name in outside.state_dict()] == [
        2 * name.count("module.") for name in plain
    ]
    with no_error():
        AveragedModel(run.network()).load_state_dict(inside.state_dict())


def test_average_the_module_inside__also_without_a_process_group(snippet):
    run = after(snippet, *WRAPPED)
    outside, inside = run.both_averages
    assert not run.dist.is_initialized()

    inside.update_parameters(run.ddp)  # as `train` does
    inside.update_parameters(run.ddp.module)
    assert math.isfinite(run.evaluate(copy.deepcopy(inside))[0])
    assert bytes_of(inside) > 0
    with pytest.raises(ValueError, match="process group"):
        copy.deepcopy(outside)


def test_average_the_module_inside__but_not_ddp_itself(snippet, fails):
    """An average of the wrapped model has `module.` twice."""
    edited = snippet.edit("(ddp, ddp.module)", "(ddp, ddp)")
    fails(test_average_the_module_inside, edited)


AGAIN = ("tie", "average", "by-hand", "started-again")


def test_without_the_count_it_starts_again(snippet, decay=0.9):
    run = after(snippet, *AGAIN)
    assert run.average.module.weight.item() == pytest.approx(1.29)
    assert run.again.module.weight.item() == 4

    layer = nn.Linear(2, 2)
    ema = run.get_ema_multi_avg_fn(decay)
    average, whole, part = (
        AveragedModel(layer, multi_avg_fn=ema) for _ in range(3)
    )
    for number in (1.0, 2.0):
        nn.init.constant_(layer.weight, number)
        average.update_parameters(layer)
    whole.load_state_dict(average.state_dict())
    part.module.load_state_dict(average.module.state_dict())
    nn.init.constant_(layer.weight, 4.0)
    for each in (average, whole, part):
        each.update_parameters(layer)
    assert torch.equal(whole.module.weight, average.module.weight)
    assert not torch.equal(part.module.weight, average.module.weight)
    assert torch.equal(part.module.weight, layer.weight)


@pytest.mark.parametrize("decay", [0.5, 0.999])
def test_without_the_count_it_starts_again__also_with(snippet, decay):
    test_without_the_count_it_starts_again(snippet, decay)


def test_without_the_count_it_starts_again__but_not_with_it(snippet, fails):
    """The state dict of the average has the count, so it goes on."""
    edited = snippet.edit(
        "again.module.load_state_dict(average.module.state_dict())",
        "again.load_state_dict(average.state_dict())",
    )
    fails(test_without_the_count_it_starts_again, edited)
