"""The claims of docs/data/datasets.md."""

from pathlib import Path

import pytest
import torch

from extensions.files.failures import no_error

pytest.importorskip("PIL", reason="Pillow is not installed")


def test_torch_tensor_takes_no_image(snippet):
    run = snippet.after("wrong-tensor")

    with pytest.raises(TypeError, match="data must be a sequence"):
        torch.Tensor(run.image)


def test_torch_tensor_takes_no_image__but_takes_its_array(snippet, fails):
    edited = snippet.edit(
        'image = Image.open(folder / "0.png").convert("RGB")',
        'image = np.array(Image.open(folder / "0.png")).tolist()',
    )
    fails(test_torch_tensor_takes_no_image, edited)


def test_pixels_are_bytes_with_channels_last(snippet):
    run = snippet.after("pixels")

    width, height = run.image.size
    assert run.pixels.shape == (height, width, 3)
    assert height != width
    assert run.pixels.dtype == torch.uint8
    assert (run.pixels[..., 0] == 255).all()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("np.array(image))\n\nprint", "np.array(image) / 255)\n\nprint"),
        ("np.array(image))\n\nprint", "np.array(image).T.copy())\n\nprint"),
        ('("RGB", "L",', '("L", "RGB",'),
    ],
)
def test_pixels_are_bytes_with_channels_last__but_not(
    snippet, old, new, fails
):
    if old.startswith("("):
        edited = snippet.edit('"RGB", "L", "RGBA", "RGB"', '"L", "L", "RGB"')
    else:
        edited = snippet.edit(old, new)
    fails(test_pixels_are_bytes_with_channels_last, edited)


def convolved(image):
    torch.nn.Conv2d(3, 1, kernel_size=3)(image)
    return True


def accepts(image):
    try:
        return convolved(image)
    except RuntimeError:
        return False


def test_convolutions_want_channels_first(snippet):
    run = snippet.after("right-tensor")

    assert accepts(run.scaled)
    assert not accepts(run.scaled.permute(1, 2, 0))
    assert not accepts((run.scaled * 255).to(torch.uint8))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scaled = pixels.permute(2, 0, 1).float()", "scaled = pixels"),
        ("scaled = pixels.permute(2, 0, 1)", "scaled = pixels"),
    ],
)
def test_convolutions_want_channels_first__but_not_last(
    snippet, old, new, fails
):
    fails(test_convolutions_want_channels_first, snippet.edit(old, new))


def test_convert_gives_three_channels(snippet):
    run = snippet.after("sample")

    assert set(run.modes) == {"RGB", "L", "RGBA"}
    assert {image.shape[0] for image, label in map_style(run)} == {3}


def map_style(run):
    return [run.pictures[i] for i in range(len(run.pictures))]


def test_convert_gives_three_channels__but_four_to_rgba(snippet, fails):
    edited = snippet.edit(
        '            image = image.convert("RGB")',
        '            image = image.convert("RGBA")',
    )
    fails(test_convert_gives_three_channels, edited)


def test_convert_gives_three_channels__but_rgba_gives_four(snippet, fails):
    edited = snippet.edit('image.convert("RGB")', 'image.convert("RGBA")')
    fails(test_convert_gives_three_channels, edited)


def test_mixed_sizes_raise(snippet):
    run = snippet.after("mixed-sizes")

    with pytest.raises(RuntimeError, match="expects each tensor to be equal"):
        next(iter(run.DataLoader(run.pictures, batch_size=2)))


def test_mixed_sizes_raise__but_not_if_equal(snippet, fails):
    edited = snippet.edit("(8 + number, 6)", "(8, 6)")
    fails(test_mixed_sizes_raise, edited)


def test_one_size_fits(snippet):
    with no_error():
        run = snippet.after("one-size")

    assert run.shapes == [(4, 3, 6, 8), (2, 3, 6, 8)]


def test_one_size_fits__but_not_their_own(snippet, fails):
    edited = snippet.edit("Pictures(paths, size=(8, 6))", "Pictures(paths)")
    fails(test_one_size_fits, edited)


def test_a_length_is_needed(snippet):
    run = snippet.after("no-length")

    loader = run.DataLoader(run.NoLength(), batch_size=2)
    with pytest.raises(TypeError, match="has no len"):
        next(iter(loader))
    with pytest.raises(TypeError, match="has no len"):
        run.DataLoader(run.NoLength(), shuffle=True)


def test_a_length_is_needed__but_not_missed_if_there(snippet, fails):
    edited = snippet.edit(
        "class NoLength(Dataset):\n",
        "class NoLength(Dataset):\n"
        "    def __len__(self):\n        return 2\n\n",
    )
    fails(test_a_length_is_needed, edited)


OPENED, HELD = "files opened in 3 epochs", "bytes held"


def test_on_demand_opens_every_epoch(snippet):
    run = snippet.after("both")

    assert run.rows["on demand"] == {OPENED: 3 * 6, HELD: 0}
    assert not any(
        isinstance(each, torch.Tensor) for each in vars(run.on_demand).values()
    )


def test_on_demand_opens_every_epoch__but_not_in_memory(snippet, fails):
    edited = snippet.edit("trade(on_demand, [])", "trade(in_memory, [])")
    fails(test_on_demand_opens_every_epoch, edited)


def test_in_memory_opens_nothing(snippet):
    run = snippet.after("both")

    assert run.rows["in memory"][OPENED] == 0
    assert run.rows["in memory"][HELD] == 6 * 3 * 6 * 8 * 4


def test_in_memory_opens_nothing__but_on_demand_does(snippet, fails):
    edited = snippet.edit(
        "return self.samples[index]", "return on_demand[index]"
    )
    fails(test_in_memory_opens_nothing, edited)


def test_floats_take_four_times_the_bytes(snippet):
    run = snippet.after("both")

    width, height = 8, 6
    assert run.rows["in memory"][HELD] == 4 * (6 * height * width * 3)


def test_floats_take_four_times_the_bytes__but_bytes_do_not(snippet, fails):
    edited = snippet.edit(".float() / 255, index", ", index")
    fails(test_floats_take_four_times_the_bytes, edited)


def test_a_stream_repeats_in_every_worker(snippet):
    run = snippet.after("read-stream")

    assert run.once == [0, 1, 2, 3, 4, 5]
    assert run.twice == sorted(2 * run.once)


def test_a_stream_repeats_in_every_worker__but_not_in_one(snippet, fails):
    edited = snippet.edit(
        "twice = read(Stream(), workers=2)",
        "twice = read(Stream(), workers=1)",
    )
    fails(test_a_stream_repeats_in_every_worker, edited)


def test_a_sharded_stream_comes_once(snippet):
    run = snippet.after("sharded")

    assert run.shared_out == [0, 1, 2, 3, 4, 5]
    for workers in (0, 1):
        start = "fork" if workers else None
        loader = run.DataLoader(
            run.Sharded(), num_workers=workers, multiprocessing_context=start
        )
        assert sorted(int(each) for each in loader) == run.shared_out


def test_a_sharded_stream_comes_once__but_not_unless_by_worker(snippet, fails):
    edited = snippet.edit(
        "(worker.id, worker.num_workers) if worker", "(0, 2) if worker"
    )
    fails(test_a_sharded_stream_comes_once, edited)


def test_no_worker_no_info(snippet):
    run = snippet.after("sharded")

    loader = run.DataLoader(run.Sharded(), num_workers=0)
    assert torch.utils.data.get_worker_info() is None
    with no_error():
        found = [int(each) for each in loader]
    assert found == [0, 1, 2, 3, 4, 5]


def test_no_worker_no_info__but_the_class_must_ask(snippet, fails):
    edited = snippet.edit(" if worker else (0, 1)", "")
    fails(test_no_worker_no_info, edited)


def test_a_stream_cannot_be_shuffled(snippet):
    run = snippet.after("stream-limits")

    with pytest.raises(ValueError, match="got shuffle=True"):
        run.DataLoader(run.Stream(), shuffle=True)
    with pytest.raises(TypeError, match="has no len"):
        len(run.DataLoader(run.Stream()))


def test_a_stream_cannot_be_shuffled__but_an_index_can(snippet, fails):
    edited = snippet.edit(
        "class Stream(IterableDataset):\n    def __iter__(self):\n"
        "        yield from range(6)",
        "class Stream(Dataset):\n    def __len__(self):\n        return 6\n\n"
        "    def __getitem__(self, index):\n        return range(6)[index]",
    )
    fails(test_a_stream_cannot_be_shuffled, edited)


def test_a_stream_cannot_be_shuffled__but_may_have_a_length(snippet, fails):
    edited = snippet.edit(
        "class Stream(IterableDataset):\n",
        "class Stream(IterableDataset):\n"
        "    def __len__(self):\n        return 6\n\n",
    )
    fails(test_a_stream_cannot_be_shuffled, edited)


def test_a_list_is_copied_into_each_worker(snippet):
    if not Path("/proc/self/smaps_rollup").exists():
        pytest.skip("only Linux tells what memory is a process's own")
    run = snippet.after("compare-workers")

    assert run.of_a_list - run.of_an_array > 25 * run.MB


def test_a_list_is_copied_into_each_worker__but_not_an_array(snippet, fails):
    edited = snippet.edit("numbers.tolist()", "numbers")
    fails(test_a_list_is_copied_into_each_worker, edited)
