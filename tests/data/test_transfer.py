"""The claims of docs/data/transfer.md."""

import copy
import threading
from concurrent.futures import Future
from itertools import product
from unittest.mock import Mock, patch

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from extensions.evidence.counterexamples import edits, no_error
from extensions.programs.snippet import after
from tests.helpers import worlds

DEVICE = """\
    torch.accelerator.current_accelerator()
    if torch.accelerator.is_available()
    else torch.device("cpu")
"""
SLOW_OR_NOT = (0, 0.5, 1, 2, 3, 4.5, 7)
QUEUE = ("digits", "by-hand", "compare", "who-waits")


def pretend(monkeypatch, name):
    """Let PyTorch find an accelerator of a name; no name, none."""
    found = {
        "is_available": lambda: bool(name),
        "current_accelerator": lambda *_, **__: (
            torch.device(name) if name else None
        ),
        "current_device_index": lambda: 0,
        "set_device_index": lambda index: None,
    }
    for each, answer in found.items():
        monkeypatch.setattr(torch.accelerator, each, answer)


# Do this


@pytest.mark.simulates("an accelerator")
def test_pins_where_it_helps(snippet, monkeypatch):
    on_the_cpu = snippet.edit("10).to(device)", "10)")
    for found in ("cuda", "cuda:1", "cuda:7", "xpu", "mtia", "hpu", "mps", ""):
        pins = found not in ("mps", "")
        pretend(monkeypatch, found)
        run = on_the_cpu.after("loader")
        assert run.device == torch.device(found or "cpu")
        assert run.pin is pins, found
        assert run.loader.pin_memory is pins


@edits(
    ("on the cpu", 'not in ("cpu", "mps")', 'not in ("mps",)'),
    ("on mps", 'not in ("cpu", "mps")', '!= "cpu"'),
    ("on others", 'not in ("cpu", "mps")', 'in ("cuda",)'),
    ("not in the loader", "shuffle=True, pin_memory=pin", "shuffle=True"),
)
def test_pins_where_it_helps__but_not(snippet, monkeypatch, old, new, fails):
    """Without `"cpu"` in this list, it pins on the CPU, too; the others pin
    elsewhere, too seldom, or not in the loader.
    """
    fails(test_pins_where_it_helps, snippet.edit(old, new), monkeypatch)


def on_meta(snippet):
    """Return the program with the device `meta`, and nothing to pin."""
    program = snippet.edit(DEVICE, '    torch.device("meta")\n')
    return program.edit(", pin_memory=pin", "")


def trained(snippet):
    """Run the loop to its end, on `meta` without its last line."""
    last = 'print(f"loss {total.item() / len(digits):.3f}")'
    return snippet.edit(last, "").after("train")


@pytest.mark.simulates("an accelerator")
def test_the_loop_stays_on_the_device(snippet):
    start = snippet.after("loader")
    model = start.model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for images, labels in start.loader:
        images, labels = images.to(start.device), labels.to(start.device)
        loss = F.cross_entropy(model(images), labels, reduction="sum")
        optimizer.zero_grad()
        (loss / len(labels)).backward()
        optimizer.step()
        losses.append(loss.item())
    assert len(losses) == 29

    for program in (on_meta(snippet), snippet):
        # `print` of a tensor reads numbers without an error on `meta`.
        with no_error(), patch.object(torch.Tensor, "__repr__", None):
            run = trained(program)
        found = [run.images, run.labels, run.loss, run.total]
        found += run.model.parameters()
        assert {each.device.type for each in found} == {run.device.type}
        assert not run.total.requires_grad

    run = snippet.after("train")
    assert run.total.item() == pytest.approx(sum(losses), rel=1e-5)
    for each, mine in zip(
        run.model.parameters(), model.parameters(), strict=True
    ):
        torch.testing.assert_close(each, mine)


@pytest.mark.simulates("an accelerator")
@pytest.mark.parametrize("pinned", [True, False])
def test_the_loop_stays_on_the_device__also_waiting_unless_it_pins(
    snippet, pinned
):
    asked, to = [], torch.Tensor.to

    def noting(tensor, *args, **options):
        if args == (torch.device("meta"),):
            asked.append(options.get("non_blocking", False))
        return to(tensor, *args, **options)

    program = on_meta(snippet)
    if not pinned:
        program = program.edit('("cpu", "mps")', '("cpu", "meta")')
    with patch.object(torch.Tensor, "to", noting):
        run = trained(program)
    assert asked == [pinned] * 2 * len(run.loader)


@pytest.mark.simulates("an accelerator")
def test_the_loop_stays_on_the_device__also_with_move(snippet):
    run = snippet.only("digits", "move", "move-checked").after("move-checked")
    (box, rest), pair = run.moved["boxes"], run.moved["pair"]
    for tensor in (run.moved["image"], box, pair.left):
        assert tensor.is_meta
    assert (rest, pair.right) == (("7.png", 3), None)
    part = Mock(spec=["to"])
    run.move([part], "cuda", True)
    part.to.assert_called_once_with("cuda", non_blocking=True)


@edits(
    (
        "if each loss is read",
        "loss.detach() * len(labels)",
        "loss.item() * len(labels)",
    ),
    ("the model", "nn.Linear(64, 10).to(device)", "nn.Linear(64, 10)"),
    ("the labels", "labels = labels.to(device, non_blocking=pin)", "pass"),
    ("the total", "total += loss.detach()", "total += loss.detach().cpu()"),
    ("without the graphs", "total += loss.detach()", "total += loss"),
    ("if each batch counts alike", "detach() * len(labels)", "detach()"),
)
def test_the_loop_stays_on_the_device__but_not(snippet, old, new, fails):
    """With `item()`, the loop reads a number of each batch; the other edits
    leave a part on the CPU, keep the graphs, or weigh the batches alike.
    """
    fails(test_the_loop_stays_on_the_device, snippet.edit(old, new))


# The queue


def small_batches(count=12, size=6, dtype=torch.float32):
    """Return that many batches of 64 pixels, and their labels."""
    torch.manual_seed(1)
    labels = torch.randint(10, (count, size))
    pixels = torch.rand(count, size, 64, dtype=dtype)
    return list(zip(pixels, labels, strict=True))


def networks():
    """Return models of 64 numbers, by name."""
    norm = nn.BatchNorm1d(16)
    deep = nn.Sequential(nn.Linear(64, 16), norm, nn.ReLU(), nn.Dropout())
    images = nn.Sequential(nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 4, 3))
    return {
        "with BatchNorm and dropout": deep.append(nn.Linear(16, 10)),
        "with a convolution": images.append(nn.Flatten()).append(
            nn.Linear(144, 10)
        ),
        "in float64": nn.Linear(64, 10).double(),
        "in bfloat16": nn.Linear(64, 10).bfloat16(),
    }


def state_of(model):
    """Return all numbers of a model, and its gradients."""
    gradients = [each.grad for each in model.parameters()]
    return [*model.state_dict().values(), *gradients]


def test_the_queue_trains_like_the_plain_loop(
    snippet, model=None, batches=None, around=None
):
    with no_error():
        run = snippet.only(*QUEUE[:3]).after("compare")
    assert (len(run.batches), run.apart) == (29, 0)
    assert not run.plain.weight.equal(run.start.weight)
    batches = batches or run.batches
    model = model or run.start
    plain = copy.deepcopy(model)
    with no_error(), around() if around else no_error():
        torch.manual_seed(0)
        expected = run.train(plain, batches, queued=False)
        assert expected != 0
        for non_blocking in (True, False):
            queued = copy.deepcopy(model)
            # The queue is held up, so that the program runs ahead of it.
            held = threading.Event()
            if non_blocking:
                run.gpu.submit(held.wait, 0.3)
            torch.manual_seed(0)
            loss = run.train(queued, batches, True, non_blocking)
            assert loss == expected
            for mine, other in zip(
                state_of(queued), state_of(plain), strict=True
            ):
                assert mine.equal(other)


@pytest.mark.parametrize("name", list(networks()))
def test_the_queue_trains_like_the_plain_loop__also_for_a_model(snippet, name):
    torch.manual_seed(0)
    model = networks()[name]
    dtype = next(model.parameters()).dtype
    batches = small_batches(dtype=dtype)
    test_the_queue_trains_like_the_plain_loop(snippet, model, batches)


@pytest.mark.parametrize("name", ["Adam", "AdamW", "RMSprop", "Rprop"])
def test_the_queue_trains_like_the_plain_loop__also_with(snippet, name):
    edited = snippet.edit(
        "optim.SGD(model.parameters(), lr=0.1), []",
        f"optim.{name}(model.parameters(), lr=0.01), []",
    )
    test_the_queue_trains_like_the_plain_loop(edited)


@pytest.mark.parametrize("size", [1, 2, 500])
def test_the_queue_trains_like_the_plain_loop__also_in_batches_of(
    snippet, size
):
    batches = small_batches(4, size)
    test_the_queue_trains_like_the_plain_loop(snippet, None, batches)


@worlds.each("make", worlds.TENSORS)
def test_the_queue_trains_like_the_plain_loop__also_copies_a_tensor(
    snippet, make
):
    run = after(snippet, "digits", "by-hand")
    source = make()
    expected = source.to("cpu", copy=True)
    for non_blocking in (False, True):
        target = run.to(source, non_blocking)
        assert str(run.read(target)) == str(expected.tolist())
        assert target.dtype == expected.dtype
        assert target.stride() == expected.stride()
        assert target.requires_grad == expected.requires_grad
        assert target is not source


@edits(
    (
        "if the step does not queue",
        "gpu.submit(step, model, optimizer, images, labels, losses)",
        "step(model, optimizer, images, labels, losses)",
    ),
    (
        "3, if nothing is copied",
        "gpu.submit(target.copy_, source)",
        "gpu.submit(target.clone)",
    ),
)
def test_the_queue_trains_like_the_plain_loop__but_not(
    snippet, old, new, fails
):
    """A step that doesn't queue computes with what has not arrived; without
    line 3, zeros arrive.
    """
    fails(test_the_queue_trains_like_the_plain_loop, snippet.edit(old, new))


def test_the_queue_trains_like_the_plain_loop__ends_with_autocast(
    snippet, fails
):
    """A `with torch.autocast(...)` around `submit` does not reach the
    thread.
    """
    fails(
        test_the_queue_trains_like_the_plain_loop,
        *(snippet, None, None),
        lambda: torch.autocast("cpu"),
    )


def test_the_queue_trains_like_the_plain_loop__ends_with_an_error(
    snippet, fails
):
    """An error in a step stays in the thread, and the training goes on."""
    batches = small_batches(4)
    batches[2][1][0] = 10  # a label too large
    run = snippet.only(*QUEUE[:3]).after("compare")
    with no_error():
        run.train(run.start, batches, queued=True)
    fails(test_the_queue_trains_like_the_plain_loop, snippet, None, batches)


def test_the_queue_trains_like_the_plain_loop__ends_with_random_numbers(
    snippet, fails
):
    """Dropout draws from the random numbers of your program, which draws its
    own before the step's turn comes; a GPU has its own.
    """
    model = nn.Sequential(nn.Dropout(), nn.Linear(64, 10))
    edited = snippet.edit("in batches:", "in batches:\n        torch.rand(1)")
    batches = small_batches(4)
    fails(test_the_queue_trains_like_the_plain_loop, edited, model, batches)


def test_the_queue_trains_like_the_plain_loop__ends_with_two_queues(
    snippet, fails
):
    """In a second queue, a step does not wait for the copies in the first."""
    edited = snippet
    for old, new in (
        ("max_workers=1)  # 1", "1)\nsteps = ThreadPoolExecutor(1)"),
        ("gpu.submit(step,", "steps.submit(step,"),
        ("read(torch.zeros(()))", "steps.submit(int).result()"),
    ):
        edited = edited.edit(old, new)
    batches = small_batches(4)
    fails(test_the_queue_trains_like_the_plain_loop, edited, None, batches)


def test_a_copy_takes_what_is_there_later(snippet):
    run = snippet.only(*QUEUE[:2], "who-waits", "changed-source").after(
        "changed-source"
    )
    assert run.changed == [4, 5, 6, 7]
    for dtype in (torch.float32, torch.int64, torch.bool):
        source = torch.zeros(2, 3, dtype=dtype)
        held = threading.Event()
        run.gpu.submit(held.wait, 5)
        arrived = run.to(source, non_blocking=True)
        back = run.to(arrived, non_blocking=True)
        source.fill_(1)
        assert not arrived.any()
        held.set()
        assert run.read(arrived) == torch.ones_like(source).tolist()
        assert run.read(back) == run.read(arrived)


@edits(
    ("if it waits", "if not non_blocking:", "if True:"),
    ("if nothing is refilled", "buffer.copy_(digits", "buffer.add(digits"),
)
def test_a_copy_takes_what_is_there_later__but_not(snippet, old, new, fails):
    """A copy that waits has taken the old numbers."""
    fails(test_a_copy_takes_what_is_there_later, snippet.edit(old, new))


def test_a_copy_takes_what_is_there_later__but_not_from_a_clone(
    snippet, fails
):
    """A clone, made before the copy is queued, keeps the old numbers."""
    old = "arrived = to(buffer, non_blocking=True)\nbuffer.copy_"
    new = "arrived = to(buffer.clone(), non_blocking=True)\nbuffer.copy_"
    fails(test_a_copy_takes_what_is_there_later, snippet.edit(old, new))


def test_a_copy_takes_what_is_there_later__also_for_what_the_page_shows(
    snippet,
):
    names = (*QUEUE[:2], "who-waits", "new-source", "read-early", "read-late")
    run = after(snippet, *names)
    assert list(run.waited.values()) == [False, True, True]
    assert run.kept == [0, 1, 2, 3]
    assert run.early == [0, 0, 0, 0]
    assert run.late == [0, 1, 2, 3]


class Clock:
    """A queue on which no time passes but that of its operations."""

    def __init__(self):
        self.program = self.queue = 0

    def submit(self, operation, *inputs, takes=2):
        """Queue an operation; whoever asks for its result waits for it."""
        self.queue = max(self.program, self.queue) + takes
        ends, done = self.queue, Future()

        def result():
            self.program = max(self.program, ends)

        done.result = result
        return done


def time_of(run, load, copy, step, waits, batches, launch):
    """Return when the queue is done, with copies made by the page's `to`,
    and whether it was always busy from the first batch on.
    """
    clock, busy = Clock(), True
    submit = clock.submit
    copies = lambda *inputs: submit(*inputs, takes=copy)  # noqa: E731
    clock.submit = copies
    with patch.dict(run.to.__globals__, {"gpu": clock}):
        for number in range(batches):
            clock.program += load
            busy &= not number or clock.queue >= clock.program
            run.to(torch.ones(1), non_blocking=not waits)
            submit(None, takes=step)
            clock.program += launch  # the step's operations are queued
            busy &= clock.queue >= clock.program
            clock.queue = max(clock.queue, clock.program)
    return clock.queue, busy


@pytest.mark.simulates("a GPU")
def test_a_fast_host_saves_nothing(snippet):
    run = snippet.only("digits", "by-hand", "timeline").after("timeline")
    for load, move, step, launch in product(SLOW_OR_NOT, repeat=4):
        for batches in (1, 2, 5):
            inputs = [(load, move, step, waits) for waits in (True, False)]
            times = [time_of(run, *each, batches, launch) for each in inputs]
            ends, busy = zip(*times, strict=True)
            if not launch:
                assert busy[0] == (load <= step or batches == 1)
                timelines = [run.timeline(*each, batches) for each in inputs]
                assert [*ends] == timelines
            assert 0 <= ends[0] - ends[1] <= move * batches
            if busy[0]:
                assert ends[0] == ends[1]
    ends = [run.timeline(9, 2, 3, waits, 4) for waits in (True, False)]
    assert ends[0] - ends[1] == 2 * 3  # of four batches, all but the first
    assert run.timeline(5, 2, 3, True) == 73
    assert run.timeline(5, 2, 3, False) == 55


@edits(
    ("line 3", "max(program, queue) + copy", "program + copy"),
    ("line 4", "program = queue  # line 4", "program = queue + step"),
    ("the queue's line 4", "copied.result()", "pass"),
)
def test_a_fast_host_saves_nothing__but_not(snippet, old, new, fails):
    """If copies ran beside the steps, or the program waited for the step, or
    for nothing, other times would be saved.
    """
    fails(test_a_fast_host_saves_nothing, snippet.edit(old, new))


@pytest.mark.simulates("a GPU")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_workers_let_a_thread_pin(monkeypatch, workers=(0, 1, 2), pin=True):
    pretend(monkeypatch, "cuda")
    for count in workers:
        own = []

        def note(tensor, *_, own=own):
            here = threading.current_thread()
            own.append(here is threading.main_thread())
            return tensor

        monkeypatch.setattr(torch.Tensor, "pin_memory", note)
        data = [1.0, 2.0, 3.0]
        loader = DataLoader(data, 2, num_workers=count, pin_memory=pin)
        batches = [batch.tolist() for batch in loader]
        assert batches == [[1.0, 2.0], [3.0]]
        assert own == [count == 0] * 2


def test_workers_let_a_thread_pin__but_not_unasked(monkeypatch, fails):
    """Without `pin_memory=True`, nobody pins."""
    fails(test_workers_let_a_thread_pin, monkeypatch, (0,), False)


# Where it ends


def test_nothing_to_do_copies_nothing(
    snippet, dtype=torch.int16, layout=torch.channels_last
):
    run = snippet.after("nothing-to-do")
    found = {name: each is run.pixels for name, each in run.given.items()}
    assert found == {
        "no device": True,
        "the same device": True,
        "copy=True": False,
    }
    for device, own in product(
        ("cpu", "meta"), (torch.float32, torch.int64, torch.bool)
    ):
        tensor = torch.ones(2, 3, 4, 4, dtype=own, device=device)
        for arguments in ((), (device,), (tensor.device,), (own,), (tensor,)):
            assert tensor.to(*arguments, non_blocking=True) is tensor
        for options in (
            {"copy": True},
            {"dtype": dtype},
            {"memory_format": layout},
        ):
            for arguments in ({}, {"device": device}):
                asked = arguments | options
                if asked == {"copy": True}:
                    asked |= {"dtype": own}
                new = tensor.to(**asked, non_blocking=True)
                assert new is not tensor
                assert new.device == tensor.device


@pytest.mark.cuda
def test_nothing_to_do_copies_nothing__also_on_cuda():
    tensor = torch.ones(3, device="cuda")

    for arguments in ((), ("cuda",), (tensor.device,), (torch.float32,)):
        assert tensor.to(*arguments, non_blocking=True) is tensor


@edits(
    ("with another device", '{"device": "cpu"}', '{"device": "meta"}'),
    ("if no copy is asked for", '"copy": True', '"copy": False'),
)
def test_nothing_to_do_copies_nothing__but_not(snippet, old, new, fails):
    """Another device makes a new tensor; and without `copy=True`, you get the
    same one.
    """
    fails(test_nothing_to_do_copies_nothing, snippet.edit(old, new))


@pytest.mark.parametrize(
    "asked",
    [(torch.float32,), (torch.int16, torch.contiguous_format)],
    ids=["dtype", "memory format"],
)
def test_nothing_to_do_copies_nothing__but_not_with_its_own(
    snippet, asked, fails
):
    """A tensor needs no copy for the dtype or memory format that it has."""
    fails(test_nothing_to_do_copies_nothing, snippet, *asked)


def test_nothing_to_do_copies_nothing__ends_with_cpu_0(snippet, fails):
    """`"cpu:0"` is not `"cpu"`, so that you get a new tensor on the CPU."""
    edited = snippet.edit('{"device": "cpu"}', '{"device": "cpu:0"}')
    fails(test_nothing_to_do_copies_nothing, edited)


# On CUDA


def cuda_says(snippet):
    """Return what the cell for CUDA has found."""
    return snippet.only("digits", "on-cuda").after("on-cuda").said


@pytest.mark.cuda
def test_pinned_copies_return_early(snippet):
    said = cuda_says(snippet)
    assert said["non_blocking=True"] == "went on"
    assert said["to('cuda')"] == "waited"
    assert said["item()"] == "waited"


@pytest.mark.cuda
@edits(
    (
        "if non_blocking is left out",
        'lambda: pinned.to("cuda", non_blocking=True)',
        'lambda: pinned.to("cuda")',
    ),
    (
        "if the others do not wait",
        'lambda: pinned.to("cuda"),',
        'lambda: pinned.to("cuda", non_blocking=True),',
    ),
    ("if no number is read", "on_gpu[0].item()", "on_gpu[0]"),
)
def test_pinned_copies_return_early__but_not(snippet, old, new, fails):
    """Only `non_blocking=True` returns early; a blocking copy waits, and
    without `item()` no number is read.
    """
    fails(test_pinned_copies_return_early, snippet.edit(old, new))


SENT = """    arrived = buffer.to("cuda", non_blocking=True)
    buffer.fill_(1)
"""


@pytest.mark.cuda
def test_a_changed_source_arrives_changed(snippet):
    assert cuda_says(snippet)["sent 0, then filled with 1"] == 1


@pytest.mark.cuda
@edits(
    (
        "if the copy blocks",
        SENT,
        "    arrived = buffer.to('cuda')\n    buffer.fill_(1)\n",
    ),
    (
        "once the copy is done",
        "    buffer.fill_(1)\n",
        "    torch.cuda.synchronize()\n    buffer.fill_(1)\n",
    ),
)
def test_a_changed_source_arrives_changed__but_not(snippet, old, new, fails):
    """A copy that blocks, or is done already, has taken the old numbers."""
    fails(test_a_changed_source_arrives_changed, snippet.edit(old, new))


@pytest.mark.cuda
def test_a_changed_source_arrives_changed__ends_in_ordinary_memory(
    snippet, fails
):
    """From memory that is not pinned, the numbers have been taken when the
    call returns.
    """
    edited = snippet.edit(SENT, f"    buffer = buffer.clone()\n{SENT}")
    fails(test_a_changed_source_arrives_changed, edited)


@pytest.mark.cuda
def test_a_new_source_is_safe(snippet):
    assert cuda_says(snippet)["sent 0, then a new tensor"] == 0


@pytest.mark.cuda
def test_a_new_source_is_safe__but_not_the_old_one(snippet, fails):
    """Written into the old tensor, the change does arrive."""
    old = "buffer = torch.ones(2**20, pin_memory=True)"
    edited = snippet.edit(old, "buffer.add_(1)")
    fails(test_a_new_source_is_safe, edited)


@pytest.mark.cuda
def test_reading_early_reads_old_numbers(snippet):
    said = cuda_says(snippet)
    assert said["on the GPU 1, read early"] == 0
    assert said["on the GPU 1, read after synchronize()"] == 1


@pytest.mark.cuda
@edits(
    (
        "if the copy blocks",
        "back.copy_(on_gpu, non_blocking=True)",
        "back.copy_(on_gpu)",
    ),
    (
        "if nothing is copied",
        "    back.copy_(on_gpu, non_blocking=True)\n",
        "",
    ),
)
def test_reading_early_reads_old_numbers__but_not(snippet, old, new, fails):
    """A copy that blocks has arrived at once; one that is not made, never."""
    fails(test_reading_early_reads_old_numbers, snippet.edit(old, new))


@pytest.mark.cuda
def test_reading_early_reads_old_numbers__also_in_a_pinned_result():
    for dtype in (torch.int64, torch.bool, torch.float16):
        there = torch.ones(3, dtype=dtype, device="cuda")
        assert there.to("cpu", non_blocking=True).is_pinned()
