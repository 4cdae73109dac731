"""How the tests run, and what their results say of themselves."""

import pytest
import torch
from _pytest.compat import running_on_ci

from extensions.evidence import pytest_plugin


@pytest.fixture
def gpu(monkeypatch):
    """Pretend that there is a device; return how often it gave memory."""
    stats = {}
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "GPU 9")
    monkeypatch.setattr(torch.cuda, "memory_stats", lambda: stats)
    return stats


@pytest.mark.parametrize(
    ("is_there", "asks", "ran_on"),
    [(True, True, "GPU 9"), (True, False, "CPU"), (False, False, "CPU")],
)
def test_a_test_ran_on_the_device_that_it_asks_for_memory(
    request, monkeypatch, gpu, is_there, asks, ran_on
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: is_there)
    gpu["allocation.all.allocated"] = 3
    steps = pytest_plugin._device.__wrapped__(request)
    next(steps)
    gpu["allocation.all.allocated"] += asks
    next(steps, None)

    assert request.node.user_properties.pop() == ("device", ran_on)


def test_a_test_has_one_thread():
    assert torch.get_num_threads() == 1


def test_one_process_has_the_device_and_without_one_each_core(
    gpu, monkeypatch
):
    assert pytest_plugin.pytest_xdist_auto_num_workers() == 1
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert pytest_plugin.pytest_xdist_auto_num_workers() is None


@pytest.mark.parametrize(("size", "kind"), [(3, "a")])
@pytest.mark.parametrize("seed", [1])
def test_a_case_is_told_with_the_names_of_its_arguments(
    request, seed, size, kind
):
    found = pytest_plugin.parameters_of(request.node)

    assert found == "seed=1\nsize,kind=3-a"


def test_a_test_without_cases_has_no_parameters(request):
    assert not pytest_plugin.parameters_of(request.node)


@pytest.mark.parametrize("name", ["CI", "BUILD_NUMBER"])
def test_on_ci_a_failed_assertion_says_what_it_says_elsewhere(
    monkeypatch, name
):
    monkeypatch.setenv(name, "1")

    pytest_plugin.pytest_configure()

    assert not running_on_ci()
