"""The claims of docs/models/evaluation.md."""

import pytest

STATISTICS, DROPOUT, LOOSE, TIED, GRAPH = (
    "statistics move",
    "Dropout drops",
    "F.dropout drops",
    "F.dropout(training=...) drops",
    "records a graph",
)
QUIET = ("no_grad()", "inference_mode()")


def test_eval_does_not_stop_the_graph(snippet):
    row = snippet.after("try-all").rows["eval(), no context"]

    assert not row[DROPOUT]
    assert not row[STATISTICS]
    assert row[GRAPH]


def test_eval_does_not_stop_the_graph__but_no_grad_does(snippet, fails):
    edited = snippet.edit(
        '"no context": contextlib.nullcontext', '"no context": torch.no_grad'
    )
    fails(test_eval_does_not_stop_the_graph, edited)


def test_no_grad_does_not_stop_the_layers(snippet):
    rows = snippet.after("try-all").rows

    for name in QUIET:
        row = rows[f"train(), {name}"]
        assert row[DROPOUT]
        assert row[STATISTICS]
        assert not row[GRAPH]


def test_no_grad_does_not_stop_the_layers__but_eval_does(snippet, fails):
    edited = snippet.edit("Net().train(training)", "Net().eval()")
    fails(test_no_grad_does_not_stop_the_layers, edited)


def test_both_together_stop_all(snippet):
    rows = snippet.after("try-all").rows

    quiet = {
        name
        for name, row in rows.items()
        if not (row[DROPOUT] or row[STATISTICS] or row[GRAPH])
    }
    assert quiet == {f"eval(), {name}" for name in QUIET}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Net().train(training)", "Net().train()"),
        ('"no_grad()": torch.no_grad', '"no_grad()": torch.enable_grad'),
    ],
)
def test_both_together_stop_all__but_not_one_of_them(snippet, old, new, fails):
    fails(test_both_together_stop_all, snippet.edit(old, new))


def test_functional_dropout_ignores_eval(snippet):
    rows = snippet.after("try-all").rows

    assert len(rows) == 6
    assert all(row[LOOSE] for row in rows.values())


def test_functional_dropout_ignores_eval__but_not_when_told(snippet, fails):
    edited = snippet.edit(
        "loose = F.dropout(inputs, 0.5)",
        "loose = F.dropout(inputs, 0.5, net.training)",
    )
    fails(test_functional_dropout_ignores_eval, edited)


def test_functional_dropout_can_be_told(snippet):
    rows = snippet.after("try-all").rows

    for name, row in rows.items():
        assert row[TIED] == name.startswith("train()")


def test_functional_dropout_can_be_told__but_must_be(snippet, fails):
    edited = snippet.edit(", training=net.training)", ")")
    fails(test_functional_dropout_can_be_told, edited)


def test_evaluate_restores_the_mode(snippet):
    run = snippet.after("evaluate")

    for mode in (True, False):
        run.net.train(mode)
        before = run.net.norm.running_mean.clone()
        output = run.evaluate(run.net, run.inputs)
        assert run.net.training == mode
        assert run.net.norm.training == mode
        assert not output.requires_grad
        assert run.net.norm.running_mean.equal(before)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("module.training = mode", "module.eval()"),
        ("with torch.inference_mode():", "with torch.enable_grad():"),
    ],
)
def test_evaluate_restores_the_mode__but_not_without(snippet, old, new, fails):
    fails(test_evaluate_restores_the_mode, snippet.edit(old, new))


def test_evaluate_restores_the_mode__also_of_a_frozen_layer_too(snippet):
    run = snippet.after("evaluate")
    run.net.train().norm.eval()
    run.evaluate(run.net, run.inputs)

    assert run.net.training
    assert not run.net.norm.training


def test_running_statistics_lag(snippet):
    run = snippet.after("lag")

    assert run.norm.running_mean.item() == pytest.approx(0.7, abs=0.05)
    assert run.early > 4


def test_running_statistics_lag__but_not_with_another_momentum(snippet, fails):
    edited = snippet.edit(
        "nn.BatchNorm1d(1)\n", "nn.BatchNorm1d(1, momentum=1.0)\n"
    )
    fails(test_running_statistics_lag, edited)


def test_running_statistics_catch_up(snippet):
    run = snippet.after("caught-up")

    assert run.late == pytest.approx(0, abs=0.05)


def test_running_statistics_catch_up__but_not_after_two(snippet, fails):
    fails(
        test_running_statistics_catch_up,
        snippet.edit("range(100)", "range(2)"),
    )


def test_batchnorm_refuses_one_sample(snippet, capsys):
    snippet.after("one-sample")

    said = capsys.readouterr().out
    assert "Expected more than 1 value per channel when training" in said
    assert said.endswith("torch.Size([1, 2])\n")


def test_batchnorm_refuses_one_sample__but_not_two(snippet, capsys, fails):
    edited = snippet.edit(
        "nn.BatchNorm1d(2)(torch.ones(1, 2))",
        "nn.BatchNorm1d(2)(torch.ones(2, 2))",
    )
    fails(test_batchnorm_refuses_one_sample, edited, capsys)


def test_batchnorm_refuses_one_sample__but_not_of_a_length(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "nn.BatchNorm1d(2)(torch.ones(1, 2))",
        "nn.BatchNorm1d(2)(torch.ones(1, 2, 5))",
    )
    fails(test_batchnorm_refuses_one_sample, edited, capsys)


def test_dropout_scales_what_it_keeps(snippet):
    run = snippet.after("scale")

    assert run.dropped.unique().tolist() == [0, 2]
    assert run.dropped.mean().item() == pytest.approx(1, abs=0.05)


def test_dropout_scales_what_it_keeps__but_not_in_eval(snippet, fails):
    edited = snippet.edit(
        "nn.Dropout(0.5)(torch", "nn.Dropout(0.5).eval()(torch"
    )
    fails(test_dropout_scales_what_it_keeps, edited)
