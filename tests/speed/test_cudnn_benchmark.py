"""The claims of docs/speed/cudnn_benchmark.md."""

import pytest
import torch


@pytest.fixture(autouse=True)
def _switches_as_they_were():
    """Put back what a snippet sets for the whole process."""
    with torch.backends.cudnn.flags(enabled=True):
        yield
    vars(torch.backends.cudnn).pop("benchmrk", None)


def test_the_switch_is_off(snippet, capsys):
    snippet.after("default")

    assert capsys.readouterr().out == "False False\n"


def test_the_switch_is_off__but_not_once_set(snippet, capsys, fails):
    edited = snippet.edit(
        "\nprint(torch.backends.cudnn.benchmark, torch.backends.cudnn.det",
        "\ntorch.backends.cudnn.benchmark = True\n"
        "print(torch.backends.cudnn.benchmark, torch.backends.cudnn.det",
    )
    fails(test_the_switch_is_off, edited, capsys)
    torch.backends.cudnn.benchmark = False


def test_a_misspelt_switch_is_taken(snippet, capsys):
    snippet.after("misspelt")

    assert capsys.readouterr().out.splitlines()[1] == "False"
    assert torch.backends.cudnn.benchmrk is True


def test_a_misspelt_switch_is_taken__but_the_right_one_works(
    snippet, capsys, fails
):
    edited = snippet.edit("cudnn.benchmrk", "cudnn.benchmark")
    fails(test_a_misspelt_switch_is_taken, edited, capsys)
    torch.backends.cudnn.benchmark = False


def test_a_misspelt_module_is_not(snippet, capsys):
    snippet.after("misspelt")

    assert "has no attribute 'cudn'" in capsys.readouterr().out


def test_a_misspelt_module_is_not__but_the_right_one_is(
    snippet, capsys, fails
):
    edited = snippet.edit(
        "backends.cudn.benchmark", "backends.cudnn.benchmark"
    )
    fails(test_a_misspelt_module_is_not, edited, capsys)
    torch.backends.cudnn.benchmark = False


def test_flags_are_put_back(snippet):
    run = snippet.after("for-a-while")

    assert run.inside
    assert not run.outside


def test_flags_are_put_back__but_an_assignment_is_not(snippet, fails):
    edited = snippet.edit(
        "    inside = torch.backends.cudnn.benchmark\n",
        "    inside = torch.backends.cudnn.benchmark\n"
        "torch.backends.cudnn.benchmark = inside\n",
    )
    fails(test_flags_are_put_back, edited)
    torch.backends.cudnn.benchmark = False


def test_flags_switch_cudnn_off(snippet):
    assert not snippet.after("for-a-while").enabled_unless_told
    assert torch.backends.cudnn.enabled


def test_flags_switch_cudnn_off__but_not_if_told(snippet, fails):
    edited = snippet.edit(
        "flags(benchmark=True)", "flags(enabled=True, benchmark=True)"
    )
    fails(test_flags_switch_cudnn_off, edited)


def test_the_cpu_does_not_care(snippet):
    run = snippet.after("on-the-cpu")

    assert torch.equal(run.plain, run.chosen)


def test_the_cpu_does_not_care__but_another_input_differs(snippet, fails):
    edited = snippet.edit(
        "    chosen = layer(images)", "    chosen = layer(2 * images)"
    )
    fails(test_the_cpu_does_not_care, edited)


def test_benchmark_and_deterministic_are_two(snippet):
    assert snippet.after("deterministic").both == (True, True)


def test_benchmark_and_deterministic_are_two__each_its_own(snippet, fails):
    edited = snippet.edit(
        "benchmark=True, deterministic=True", "benchmark=True"
    )
    fails(test_benchmark_and_deterministic_are_two, edited)


def test_padding_makes_sizes_repeat(snippet):
    run = snippet.after("sizes-of-an-epoch")

    assert len(set(run.lengths)) == 5
    assert set(run.padded) == {32, 48, 64}


def test_padding_makes_sizes_repeat__but_not_to_multiples_of_one(
    snippet, fails
):
    edited = snippet.edit("-(-length // 16) * 16", "-(-length // 1) * 1")
    fails(test_padding_makes_sizes_repeat, edited)


@pytest.mark.cuda
def test_a_new_size_is_a_new_search(snippet):
    run = snippet.after("search-per-shape")

    assert run.new_shape > run.same_shape > 0


@pytest.mark.cuda
def test_a_new_size_is_a_new_search__but_not_switched_off(snippet, fails):
    edited = snippet.edit(
        "benchmark=True):\n        kernels",
        "benchmark=False):\n        kernels",
    )
    fails(test_a_new_size_is_a_new_search, edited)
