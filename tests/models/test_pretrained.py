"""The claims of docs/models/pretrained.md."""

import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import after

BEGIN = ("imports", "no-download", "do-this")
STEP = (*BEGIN, "step", "photos", "new-resnet", "moved")
PHOTO = (*BEGIN, "photos", "transforms")
GRAY = (*PHOTO, "error-of", "gray", "gray-to-rgb", "one-channel")


def read_only(snippet):
    """Return the program with photos that nobody trains on."""
    steps = "[train_on(pictures, labels) for _ in range(5)]"
    return snippet.edit(steps, "[]")


def state_equal(model, state):
    """Return the names in a model's state that another state has too."""
    now = model.state_dict()
    return {name for name in now if now[name].equal(state[name])}


# Do this


def test_the_steps_change_the_head_alone(snippet):
    run = after(snippet, *STEP)

    changed = run.moved(run.model, run.downloaded[run.weights])
    assert changed == ["fc.weight", "fc.bias"]
    learning = [n for n, p in run.model.named_parameters() if p.requires_grad]
    assert learning == changed
    steps = {int(each["step"]) for each in run.optimizer.state.values()}
    assert steps == {len(run.losses)} == {5}
    assert run.losses[-1] < run.losses[0]


@edits(
    ("training mode", "model.eval()  # BatchNorm", "model.train()  # Batch"),
    (
        "a body that learns",
        "(model.fc.parameters(), lr=0.001)  # then this",
        "(model.requires_grad_().parameters(), lr=0.001)",
    ),
)
def test_the_steps_change_the_head_alone__but_not_with(
    snippet, old, new, fails
):
    """In training mode, BatchNorm's statistics change too; a body that is in
    the optimizer and not frozen changes as well.
    """
    fails(test_the_steps_change_the_head_alone, snippet.edit(old, new))


# How it works


def distance(one, other):
    """Return how far two tensors are apart at most."""
    return (one - other).abs().max().item()


def test_the_transforms_resize_cut_and_normalize(snippet, size=(640, 427)):
    run = after(read_only(snippet), *PHOTO, "by-hand")

    photo = run.photo.resize(size)
    resized = run.v2.functional.resize(photo, 256, antialias=True)
    assert min(resized.size) == 256
    if size == run.photo.size:
        assert run.preprocess(photo).shape == run.by_hand.shape
        assert distance(run.preprocess(photo), run.by_hand) < 1e-5
    top, left = ((each - 224) / 2 for each in resized.size[::-1])
    cut = run.v2.functional.crop(resized, round(top), round(left), 224, 224)
    numbers = run.v2.functional.pil_to_tensor(cut).movedim(0, 2) / 255
    mean = torch.tensor([0.485, 0.456, 0.406])
    std = torch.tensor([0.229, 0.224, 0.225])
    expected = ((numbers - mean) / std).movedim(2, 0)
    assert distance(run.preprocess(photo), expected) < 1e-5


@pytest.mark.parametrize(
    "size", [(300, 900), (256, 256), (224, 224), (28, 28), (3000, 1500)]
)
def test_the_transforms_resize_cut_and_normalize__also_a_photo_of(
    snippet, size
):
    test_the_transforms_resize_cut_and_normalize(snippet, size)


@edits(
    ("(photo, 256,", "(photo, 224,"),
    (
        "the whole photo",
        "center_crop(resized, 224)\nnumbers",
        "resize(photo, [224, 224])\nnumbers",
    ),
    ("(numbers - mean) / std", "numbers - mean"),
    ("(numbers - mean) / std", "numbers / std"),
)
def test_the_transforms_resize_cut_and_normalize__but_not_without(
    snippet, old, new, fails
):
    """Each step counts: another size, another part of the picture, or numbers
    without the mean or the standard deviation are another input.
    """
    edited = snippet.edit(old, new)
    fails(test_the_transforms_resize_cut_and_normalize, edited)


def test_the_transforms_resize_cut_and_normalize__ends_with_other_weights(
    snippet, fails
):
    """Other weights bring other numbers: those of ResNet-50 resize to 232."""
    old = "preprocess = weights.transforms()"
    other = "preprocess = models.ResNet50_Weights.DEFAULT.transforms()"
    edited = snippet.edit(old, other)
    fails(test_the_transforms_resize_cut_and_normalize, edited)


def test_floats_are_not_divided(snippet):
    run = after(read_only(snippet), *PHOTO, "floats")

    std = torch.tensor(run.preprocess.std)[:, None, None]
    mean = torch.tensor(run.preprocess.mean)[:, None, None]
    of_bytes, of_floats = (
        run.preprocess(each) * std + mean for each in (run.whole, run.floats)
    )
    assert run.whole.dtype == torch.uint8
    assert run.whole.equal(run.floats.byte())
    assert 0.9 < of_bytes.max().item() <= 1.0001
    assert distance(of_floats / 255, of_bytes) < 0.01


def test_floats_are_not_divided__but_not_from_0_to_1(snippet, fails):
    """Floats from 0 to 1 are what the model expects."""
    edited = snippet.edit("whole.float()", "whole.float() / 255")
    fails(test_floats_are_not_divided, edited)


def test_augmented_pictures_have_the_same_scale(snippet):
    run = after(read_only(snippet), *PHOTO, "augment")

    for color in [(0, 0, 0), (255, 255, 255), (255, 128, 10)]:
        plain = run.Image.new("RGB", (500, 300), color)  # of one color
        augmented, expected = run.train_transform(plain), run.preprocess(plain)
        assert augmented.shape == expected.shape == (3, 224, 224)
        assert distance(augmented, expected) < 1e-4


@edits(
    ("scale=True", "scale=False"),
    ("v2.Normalize(preprocess.mean, preprocess.std)", "v2.Identity()"),
    ("v2.RandomResizedCrop(preprocess.crop_size)", "v2.RandomCrop(256)"),
)
def test_augmented_pictures_have_the_same_scale__but_not_with(
    snippet, old, new, fails
):
    """Each of the steps sets the size or the scale."""
    fails(test_augmented_pictures_have_the_same_scale, snippet.edit(old, new))


def new_head(run, name):
    """Return what a model with a new head gives for two pictures."""
    with torch.device("meta"):
        model = run.models.get_model(name, weights=None).eval()
        head = run.head_of(model)
        size = model.get_submodule(head).in_features
        model.set_submodule(head, nn.Linear(size, 5))
        return list(model(torch.empty(2, 3, 224, 224)).shape)


def test_the_head_is_the_last_linear_layer(snippet, name=None):
    run = after(snippet, *BEGIN, "head-of", "new-head")

    with no_error():
        scores = run.model.eval()(torch.zeros(2, 3, 224, 224))
        assert list(scores.shape) == [2, 5]
        assert new_head(run, name or "resnet18") == [2, 5]


@pytest.mark.parametrize(
    "name",
    [
        "alexnet",
        "convnext_tiny",
        "densenet121",
        "efficientnet_b0",
        "maxvit_t",
        "mnasnet0_5",
        "mobilenet_v3_small",
        "resnext50_32x4d",
        "shufflenet_v2_x0_5",
        "swin_t",
        "vgg11",
        "vit_b_16",
        "wide_resnet50_2",
    ],
)
def test_the_head_is_the_last_linear_layer__also_in(snippet, name):
    test_the_head_is_the_last_linear_layer(snippet, name)


def test_the_head_is_the_last_linear_layer__but_not_the_first(snippet, fails):
    """In MobileNet, the first linear layer leads to the last one."""
    edited = snippet.edit("linear[-1]", "linear[0]")
    fails(test_the_head_is_the_last_linear_layer, edited)


def test_the_head_is_the_last_linear_layer__ends_with_squeezenet(
    snippet, fails
):
    """SqueezeNet has no linear layer: its head is a convolution."""
    fails(test_the_head_is_the_last_linear_layer, snippet, "squeezenet1_1")


def test_training_mode_moves_the_statistics(snippet):
    run = after(read_only(snippet), *STEP, "modes")

    statistics = [name for name, _ in run.model.named_buffers()]
    assert len(statistics) == 60
    assert run.in_train == statistics
    assert {p.requires_grad for p in run.model.conv1.parameters()} == {False}


def test_training_mode_moves_the_statistics__but_not_evaluation_mode(
    snippet, fails
):
    """In evaluation mode, BatchNorm reads its statistics and leaves them."""
    old = "model.train()\nmodel(pictures)"
    edited = snippet.edit(old, "model.eval()\nmodel(pictures)")
    fails(test_training_mode_moves_the_statistics, edited)


def test_two_groups_hold_every_parameter(snippet):
    run = after(read_only(snippet), *STEP, "unfreeze")

    head, body = ([*g["params"]] for g in run.optimizer.param_groups)
    found = sorted(map(id, [*head, *body]))
    assert found == sorted(map(id, run.model.parameters()))
    assert {id(p) for p in head} == {*map(id, run.model.fc.parameters())}
    assert all(p.requires_grad for p in run.model.parameters())
    rates = [group["lr"] for group in run.optimizer.param_groups]
    assert rates == [0.001, 0.00003]


@edits(
    ("convolutions alone", 'if "fc." not in name', 'if "conv" in name'),
    ("one rate", '"params": body, "lr": 0.00003', '"params": body'),
)
def test_two_groups_hold_every_parameter__but_not_with(
    snippet, old, new, fails
):
    """The convolutions alone leave out BatchNorm; a group without a rate of
    its own gets that of the optimizer.
    """
    fails(test_two_groups_hold_every_parameter, snippet.edit(old, new))


def test_the_trained_part_is_enough(snippet):
    run = after(read_only(snippet), *STEP, "save", "load")

    assert [*run.trained] == ["fc.weight", "fc.bias"]
    assert run.result.unexpected_keys == []
    assert not {*run.trained} & {*run.result.missing_keys}
    with torch.no_grad():
        scores, expected = (
            each.eval()(run.pictures) for each in (run.again, run.model)
        )
    assert distance(scores, expected) == 0


@edits(
    ("training mode", "model.eval()  # BatchNorm", "model.train()  # Batch"),
    (
        "other weights below",
        "again, _ = new_resnet()",
        "again = resnet18(num_classes=5)",
    ),
)
def test_the_trained_part_is_enough__but_not_with(snippet, old, new, fails):
    """In training mode, BatchNorm's statistics change too, and are no
    parameters; the head fits no other body.
    """
    fails(test_the_trained_part_is_enough, snippet.edit(old, new))


# What goes wrong


def test_gray_does_not_fit_the_transforms(snippet):
    run = after(read_only(snippet), *GRAY)

    said = "output with shape [1, 224, 224] doesn't match"
    assert said in run.error_of(run.preprocess, run.gray)
    assert list(run.as_rgb.shape) == [3, 224, 224]


def test_gray_does_not_fit_the_transforms__but_not_rgb(snippet, fails):
    """A picture in RGB has three channels, whatever its colors."""
    edited = snippet.edit('photo.convert("L")', 'photo.convert("RGB")')
    fails(test_gray_does_not_fit_the_transforms, edited)


def test_summed_weights_read_gray(snippet):
    run = after(read_only(snippet), *GRAY, "sum-channels")

    assert run.of_one.shape == run.of_three.shape == (1, 1000)
    assert run.model.conv1.weight.shape == (64, 1, 7, 7)
    assert distance(run.of_one, run.of_three) < 1e-4


@edits(
    (".weight.sum(dim=1", ".weight.mean(dim=1"),
    (".weight.sum(dim=1, keepdim=True)", ".weight[:, :1]"),
)
def test_summed_weights_read_gray__but_not_with(snippet, old, new, fails):
    """The mean is a third of the sum, and one channel is only a part of it."""
    fails(test_summed_weights_read_gray, snippet.edit(old, new))


def test_summed_weights_read_gray__ends_with_a_mean_for_each_channel(
    snippet, fails
):
    """Normalized with a mean for each channel, the three are not alike."""
    old = "three = one.expand(-1, 3, -1, -1)"
    edited = snippet.edit(
        old, f"{old} - torch.tensor([0.485, 0.456, 0.406])[:, None, None]"
    )
    fails(test_summed_weights_read_gray, edited)


SMALL = (*BEGIN, "small")


def test_small_pictures_shrink(snippet):
    run = after(snippet, *SMALL)

    sizes = {
        size: run.sizes_of(run.model, torch.zeros(1, 3, size, size))[-1]
        for size in (28, 224)
    }
    assert sizes == {28: 1, 224: 7}


def test_small_pictures_shrink__but_not_with_smaller_strides(snippet, fails):
    """With stride 1 at the start and no pooling, more pixels are left."""
    old = "model = resnet18(weights=weights).eval()\n\n\ndef sizes_of"
    first, _, rest = old.partition("\n")
    change = "model.conv1.stride, model.maxpool = (1, 1), nn.Identity()"
    edited = snippet.edit(old, f"{first}\n{change}\n{rest}")
    fails(test_small_pictures_shrink, edited)


def test_smaller_strides_keep_the_weights(snippet):
    run = after(snippet, *SMALL, "keep-small")

    trained = run.downloaded[run.weights]
    assert state_equal(run.model, trained) == trained.keys()
    sizes = run.sizes_of(run.model, torch.zeros(1, 3, 28, 28))
    assert sizes[-1] == 4
    assert run.model(torch.zeros(1, 3, 28, 28)).shape == (1, 1000)


@edits(
    ("model.maxpool = nn.Identity()\n", ""),
    ("model.conv1.stride = (1, 1)\n", ""),
    (
        "a new first layer",
        "model.conv1.stride = (1, 1)",
        "model.conv1 = nn.Conv2d(3, 64, 7, padding=3, bias=False)",
    ),
)
def test_smaller_strides_keep_the_weights__but_not_with(
    snippet, old, new, fails
):
    """One of the two changes keeps half of the size, and a new layer begins
    with random weights.
    """
    fails(test_smaller_strides_keep_the_weights, snippet.edit(old, new))


INCEPTION = ("imports", "error-of", "inception", "both-heads")


def test_inception_trains_two_heads(snippet):
    run = after(snippet, *INCEPTION)

    assert run.outputs._fields == ("logits", "aux_logits")
    assert [list(each.shape) for each in run.outputs] == [[2, 5], [2, 5]]
    assert isinstance(run.scores, torch.Tensor)
    assert list(run.scores.shape) == [1, 5]


@edits(
    (
        "one head replaced",
        "model.AuxLogits.fc = nn.Linear(model.AuxLogits.fc.in_features, 5)",
        "model.AuxLogits.fc",
    ),
    (
        "training mode throughout",
        "model.eval()(batch[:1])",
        "model.train()(batch)",
    ),
)
def test_inception_trains_two_heads__but_not_with(snippet, old, new, fails):
    """The second head keeps its 1,000 classes; in training mode, both heads
    answer each time.
    """
    fails(test_inception_trains_two_heads, snippet.edit(old, new))


def test_trained_weights_have_1000_classes(snippet):
    run = after(snippet, *BEGIN, "error-of", "classes")

    assert "expected value 1000 but got 5" in run.made
    for name in ("fc.weight", "fc.bias"):
        assert f"size mismatch for {name}" in run.loaded


@edits(
    ("weights=weights, num_classes=5", "weights=weights, num_classes=1000"),
    ("resnet18(num_classes=5)", "resnet18()"),
)
def test_trained_weights_have_1000_classes__but_not_with(
    snippet, old, new, fails
):
    """A model for 1,000 classes takes the weights."""
    fails(test_trained_weights_have_1000_classes, snippet.edit(old, new))


def test_pretrained_means_the_first_weights(snippet, name="resnet50"):
    run = after(snippet, *BEGIN, "old")

    trained = run.downloaded[run.weights]
    assert state_equal(run.old, trained) == trained.keys()
    assert len(run.said) == 2
    taken, weights = [], run.models.get_model_weights(name)
    run.models.WeightsEnum.get_state_dict = lambda each, **_: taken.append(
        each
    )
    build = run.models.get_model_builder(name)
    warned = pytest.warns(UserWarning, match="deprecated")
    with warned, pytest.raises(TypeError):  # no numbers to load
        build(pretrained=True)
    assert taken == [weights.IMAGENET1K_V1]
    assert taken[0] != weights.DEFAULT


@pytest.mark.parametrize(
    "name", ["mobilenet_v3_large", "regnet_y_400mf", "wide_resnet50_2"]
)
def test_pretrained_means_the_first_weights__also_of(snippet, name):
    test_pretrained_means_the_first_weights(snippet, name)


def test_pretrained_means_the_first_weights__but_not_default(snippet, fails):
    """`weights="DEFAULT"` takes the newest ones, and warns of nothing."""
    edited = snippet.edit("(pretrained=True)", '(weights="DEFAULT")')
    fails(test_pretrained_means_the_first_weights, edited)
