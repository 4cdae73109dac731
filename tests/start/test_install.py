"""The claims of docs/start/install.md."""

from unittest.mock import Mock

import pytest
import torch

from extensions.evidence.counterexamples import edits, no_error
from extensions.evidence.versions import api_since, older


def pretend(monkeypatch, finds):
    """Let PyTorch find an accelerator, or none; without numbers, it adds 0."""
    accelerator, item = torch.accelerator, torch.Tensor.item
    device = torch.device("meta")
    monkeypatch.setattr(accelerator, "is_available", lambda: finds)
    found = Mock(return_value=device)
    monkeypatch.setattr(accelerator, "current_accelerator", found)
    monkeypatch.setattr(
        torch.Tensor, "item", lambda x: 0 if x.is_meta else item(x)
    )


@pytest.mark.simulates("an accelerator")
def test_the_check_computes_on_the_device(snippet, monkeypatch):
    there = torch.accelerator.is_available()
    named = torch.accelerator.current_accelerator() if there else "cpu"
    with no_error():
        run = snippet.after("check")

    assert run.device == torch.device(named)
    assert run.numbers.device.type == run.device.type
    assert run.numbers.shape == (3,)
    assert (run.numbers**2).sum().item() == 14
    for finds, named in ((True, "meta"), (False, "cpu")):
        pretend(monkeypatch, finds)
        run = snippet.after("check")
        assert run.device == run.numbers.device == torch.device(named)


@edits(
    ("of other numbers", "3.0]", "4.0]"),
    ("on a device without data", "device=device)", 'device="meta")'),
    ("on the CPU in any case", ", device=device", ""),
    (
        "without a look",
        "    if torch.accelerator.is_available()\n",
        "    if True\n",
    ),
)
def test_the_check_computes_on_the_device__but_not(
    snippet, monkeypatch, old, new, fails
):
    """Other numbers have another sum; the other edits compute on `meta`,
    always on the CPU, or without a look.
    """
    edited = snippet.edit(old, new)
    fails(test_the_check_computes_on_the_device, edited, monkeypatch)


def test_the_check_says_version_and_device(snippet, capsys):
    run = snippet.after("check")

    first, _ = capsys.readouterr().out.splitlines()
    assert first == f"torch {torch.__version__} on {run.device}"
    assert run.numbers.device.type == run.device.type


@pytest.mark.parametrize("finds", [True, False])
def test_the_check_says_version_and_device__also_of_another(
    snippet, capsys, monkeypatch, finds
):
    pretend(monkeypatch, finds)
    test_the_check_says_version_and_device(snippet, capsys)


@edits(
    ("without its number", "torch.__version__", "torch"),
    ("with another name", '"on", device', '"on", "cpu0"'),
)
def test_the_check_says_version_and_device__but_not(
    snippet, old, new, capsys, fails
):
    """`torch` alone prints the module, and `"cpu0"` is not the device on which
    it computed.
    """
    fails(
        test_the_check_says_version_and_device, snippet.edit(old, new), capsys
    )


def test_the_check_says_version_and_device__but_not_if_it_computes_elsewhere(
    snippet, capsys, monkeypatch, fails
):
    """Without `device=device`, it computes on the CPU, whatever the line
    says.
    """
    pretend(monkeypatch, True)
    edited = snippet.edit(", device=device", "")
    fails(test_the_check_says_version_and_device, edited, capsys)


# Does this build fit my GPU?

IN_2_13 = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."), reason="not torch 2.13"
)
# What NVIDIA lists for computers, other than its Jetson boards.
CAPABILITIES = (35, 37, 50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120)
CODES = (50, 52, 60, 61, 70, 75, 80, 86, 89, 90, 100, 103, 120)


def test_a_cpu_build_has_no_kernels(snippet, capsys):
    run = snippet.after("gpu")
    built, kernels = capsys.readouterr().out.splitlines()[2:4]

    version = run.torch.version.cuda
    assert built == f"built for CUDA {version}"
    listed = kernels.removeprefix("with kernels for ")
    assert version is not None or listed == "[]"


@pytest.fixture
def on_a_gpu(monkeypatch):
    """Let PyTorch say what it says of a build for CUDA and an RTX 4090."""
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    cuda = torch.cuda
    monkeypatch.setattr(cuda, "get_arch_list", lambda: ["sm_75", "sm_86"])
    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(cuda, "is_available", lambda: True)
    monkeypatch.setattr(cuda, "get_device_name", lambda: "RTX 4090")
    monkeypatch.setattr(cuda, "get_device_capability", lambda: (8, 9))


def test_a_cpu_build_has_no_kernels__also_next_to_a_gpu(
    snippet, capsys, on_a_gpu
):
    test_a_cpu_build_has_no_kernels(snippet, capsys)
    snippet.after("gpu")
    said = capsys.readouterr().out.splitlines()[-3:]
    assert said[0] == "with kernels for ['sm_75', 'sm_86']"
    assert said[1:] == ["found RTX 4090", "of compute capability (8, 9)"]


def test_a_cpu_build_has_no_kernels__but_not_if_built_for_cuda(
    snippet, capsys, monkeypatch, fails
):
    """A build that lists kernels was built for a version of CUDA."""
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.cuda, "get_arch_list", lambda: ["sm_86"])
    fails(test_a_cpu_build_has_no_kernels, snippet, capsys)


def test_a_cpu_build_has_no_kernels__but_not_of_another_number(
    snippet, capsys, fails
):
    """The release of PyTorch is not the version of CUDA."""
    edited = snippet.edit("torch.version.cuda)", "torch.__version__)")
    fails(test_a_cpu_build_has_no_kernels, edited, capsys)


@IN_2_13
def test_builds_fit_gpus(snippet, machine="x86_64"):
    run = snippet.after("builds")

    listed = [37, 52, 61, 70, 75, 80, 86, 89, 90, 100, 120]
    assert [*run.gpus.values()] == listed
    every = set(run.kernels)
    assert every == {"12.6", "12.9", "13.0", "13.2"}
    for gpu, capability in run.gpus.items():
        found = set(run.builds[gpu])
        if capability < 50:
            assert found == set()
        elif capability < 75:
            assert found == {"12.6"}
        elif capability < 100:
            assert found == every
        else:
            assert found == every - {"12.6"}
    for cuda in every:
        for capability in (52, 61, 70, 75, 80, 86, 89, 90, 100, 120):
            runs = any(
                run.runs_on(capability, code)
                for code in run.kernels[cuda][machine]
            )
            old, new = capability < 75, capability >= 100
            assert runs == (not new if cuda == "12.6" else not old)


@IN_2_13
def test_builds_fit_gpus__ends_on_arm(snippet, fails):
    """On Linux for ARM, the build for CUDA 12.6 begins with Ampere (8.0)."""
    run = snippet.after("builds")
    assert run.kernels["12.6"]["aarch64"] == {80, 90}
    fails(test_builds_fit_gpus, snippet, "aarch64")


@IN_2_13
@edits(
    ("any(runs_on", "all(runs_on"),
    ('codes["x86_64"]', 'codes["aarch64"]'),
    ("kernels.items()", "[*kernels.items()][:1]"),
)
def test_builds_fit_gpus__but_not(snippet, old, new, fails):
    """One kernel that fits is enough, builds for ARM have others, and the
    first build does not run everywhere.
    """
    fails(test_builds_fit_gpus, snippet.edit(old, new))


@api_since("2.13", "the kernels of its builds by machine")
def test_kernels_run_within_a_generation(snippet, capabilities=CAPABILITIES):
    run = snippet.after("builds")

    for code in CODES:
        for capability in capabilities:
            first, second = divmod(capability, 10)
            fits = first == code // 10 and second >= code % 10
            assert run.runs_on(capability, code) == fits
    assert run.runs_on(89, 86)
    assert not run.runs_on(120, 86)


@pytest.mark.skipif(
    not older(torch.__version__, "2.14"),
    reason="torch 2.15 makes no exception",
)
def test_kernels_run_within_a_generation__ends_for_jetson(snippet, fails):
    """A Jetson Orin has (8, 7), and needs kernels of its own; torch 2.15 makes
    no exception of it.
    """
    fails(test_kernels_run_within_a_generation, snippet, (87,))


@pytest.mark.parametrize(
    "rule",
    ["gpu >= sm", "gpu // 10 == sm // 10"],
    ids=["every newer GPU", "each of the generation"],
)
def test_kernels_run_within_a_generation__but_not_for(snippet, rule, fails):
    """A rule that takes every newer GPU, or ignores the second digit, is
    another one.
    """
    old = "from torch.cuda import _code_compatible_with_device as runs_on"
    edited = snippet.edit(old, f"runs_on = lambda gpu, sm: {rule}")
    fails(test_kernels_run_within_a_generation, edited)


@IN_2_13
@pytest.mark.simulates("a GPU")
def test_an_unfit_gpu_is_warned_of(snippet, capability=(6, 1)):
    old = "lambda _: (6, 1)"
    run = snippet.edit(old, f"lambda _: {capability}").after("warned")

    said = [str(each.message) for each in run.caught]
    major, minor = capability
    assert {each.category for each in run.caught} == {UserWarning}
    assert f"compute capability (CC) {major}.{minor}." in said[-1]
    generations = {sm // 10 for sm in run.kernels["13.0"]["x86_64"]}
    if major not in generations:
        assert f"capability sm_{major}{minor} is not compatible" in said[0]
        assert "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120." in said[0]
    fitting = [
        cuda
        for cuda, codes in run.kernels.items()
        if any(run.runs_on(10 * major + minor, sm) for sm in codes["x86_64"])
    ]
    version = torch.__version__.partition("+")[0]
    address = "https://download.pytorch.org/whl/cu"
    commands = [
        f"pip install torch=={version} --index-url {address}"
        f"{cuda.replace('.', '')}"
        for cuda in fitting
    ]
    assert fitting
    for command in commands:
        assert command in said[-1]
    assert said[-1].count("pip install") == len(commands)


@IN_2_13
@pytest.mark.parametrize("capability", [(5, 2), (7, 0)], ids=str)
def test_an_unfit_gpu_is_warned_of__also_of_capability(snippet, capability):
    test_an_unfit_gpu_is_warned_of(snippet, capability)


@IN_2_13
def test_an_unfit_gpu_is_warned_of__ends_for_kepler(snippet, fails):
    """For (3, 7), as a Tesla K80 has, no build has kernels, and it names
    none.
    """
    fails(test_an_unfit_gpu_is_warned_of, snippet, (3, 7))


@IN_2_13
def test_an_unfit_gpu_is_warned_of__but_not_if_it_fits(snippet, fails):
    """For an RTX 4090, with (8, 9), there is nothing to warn of."""
    fails(test_an_unfit_gpu_is_warned_of, snippet, (8, 9))
