"""
Use a pretrained model: ResNet and others of torchvision
========================================================

A ResNet that others trained on photos gets a head for other classes.
"""

# %% imports
import warnings
from copy import deepcopy

import torch
import torchvision
from PIL import Image
from sklearn.datasets import load_sample_image
from torch import nn, optim
from torch.nn import functional as F
from torchvision import models
from torchvision.models import ResNet18_Weights, resnet18
from torchvision.transforms import v2

print("torch", torch.__version__, "and torchvision", torchvision.__version__)

# %% no-download
torch.manual_seed(0)
downloaded = {ResNet18_Weights.DEFAULT: resnet18().state_dict()}
models.WeightsEnum.get_state_dict = lambda weights, **_: downloaded[weights]

# %% do-this
weights = ResNet18_Weights.DEFAULT
model = resnet18(weights=weights)  # downloads 45 MB, once
preprocess = weights.transforms()  # call it on each picture
model.requires_grad_(False)  # freeze all,
model.fc = nn.Linear(model.fc.in_features, 5)  # then replace the head,
optimizer = optim.AdamW(model.fc.parameters(), lr=0.001)  # then this

print([name for name, p in model.named_parameters() if p.requires_grad])


# %% step
def train_on(pictures, labels):
    model.eval()  # BatchNorm and dropout hold still
    model.fc.train()
    optimizer.zero_grad()
    loss = F.cross_entropy(model(pictures), labels)
    loss.backward()
    optimizer.step()
    return loss.item()


# %% photos
photos = [load_sample_image(name) for name in ("china.jpg", "flower.jpg")]
pictures = torch.stack([preprocess(Image.fromarray(p)) for p in photos])
labels = torch.tensor([0, 3])
losses = [train_on(pictures, labels) for _ in range(5)]

print("loss:", [round(loss, 2) for loss in losses])

# %% classify
whole_model = resnet18(weights=weights).eval()
with torch.no_grad():
    best = whole_model(pictures).argmax(dim=1)
names = weights.meta["categories"]
guesses = [names[each] for each in best]

print(len(names), "names, such as", names[:3])

# %% transforms
print(preprocess)
photo = Image.fromarray(photos[0])
print(photo.size, "becomes", list(preprocess(photo).shape))

# %% by-hand
resized = v2.functional.resize(photo, 256, antialias=True)
cut = v2.functional.center_crop(resized, 224)
numbers = v2.functional.pil_to_tensor(cut) / 255
mean, std = torch.tensor([preprocess.mean, preprocess.std])[..., None, None]
by_hand = (numbers - mean) / std

print(by_hand.min().item(), by_hand.max().item())

# %% floats
# Wrong on purpose: do not copy.
whole = torch.tensor(photos[0]).permute(2, 0, 1)  # 0 to 255
floats = whole.float()  # the same numbers, as floats

print("uint8 becomes at most", preprocess(whole).max().item())
print("float32 becomes at most", preprocess(floats).max().item())

# %% augment
train_transform = v2.Compose(
    [
        v2.PILToTensor(),
        v2.RandomResizedCrop(preprocess.crop_size),
        v2.RandomHorizontalFlip(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(preprocess.mean, preprocess.std),
    ]
)

print(list(train_transform(photo).shape))


# %% head-of
def head_of(model):
    linear = [n for n, m in model.named_modules() if isinstance(m, nn.Linear)]
    return linear[-1]


# %% heads
architectures = """resnet18 shufflenet_v2_x0_5 densenet121 alexnet
    efficientnet_b0 convnext_tiny mobilenet_v3_small vit_b_16 swin_t"""
for name in architectures.split():
    with torch.device("meta"):  # shapes alone, no numbers
        other = models.get_model(name, weights=None)
    head = head_of(other)
    print(f"{name:18} model.{head:13} {other.get_submodule(head)}")

# %% new-head
model = models.mobilenet_v3_small(weights=None)
head = head_of(model)
size = model.get_submodule(head).in_features
model.set_submodule(head, nn.Linear(size, 5))

print(model.classifier)


# %% new-resnet
def new_resnet():
    model = resnet18(weights=weights).requires_grad_(False)
    model.fc = nn.Linear(model.fc.in_features, 5)
    return model, optim.AdamW(model.fc.parameters(), lr=0.001)


# %% unfreeze
model, optimizer = new_resnet()
body = [p for name, p in model.named_parameters() if "fc." not in name]
model.requires_grad_(True)
optimizer.add_param_group({"params": body, "lr": 0.00003})

print([(len(g["params"]), g["lr"]) for g in optimizer.param_groups])

# %% save
model, optimizer = new_resnet()
train_on(pictures, labels)
trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
# torch.save(trained, "head.pt")

print({name: list(p.shape) for name, p in trained.items()})
print(sum(p.nbytes for p in trained.values()), "bytes, instead of", end=" ")
print(sum(t.nbytes for t in model.state_dict().values()))

# %% load
again, _ = new_resnet()
result = again.load_state_dict(trained, strict=False)
again.eval()

print("unexpected:", result.unexpected_keys)


# %% moved
def moved(model, before):
    now = model.state_dict()
    return [name for name in now if not now[name].equal(before[name])]


# %% modes
# Wrong on purpose: do not copy.
model, optimizer = new_resnet()
before = deepcopy(model.state_dict())
model.train()
model(pictures)  # a forward pass alone
in_train = moved(model, before)

print(len(in_train), "tensors moved, such as", in_train[:2])


# %% error-of
def error_of(call, *arguments, **options):
    try:
        call(*arguments, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# %% gray
# Wrong on purpose: do not copy.
gray = photo.convert("L")

print(error_of(preprocess, gray))

# %% gray-to-rgb
as_rgb = preprocess(gray.convert("RGB"))

print(list(as_rgb.shape))

# %% one-channel
# Wrong on purpose: do not copy.
model = resnet18(weights=weights).eval()
one = v2.functional.pil_to_tensor(gray)[None] / 255 - 0.5  # 1 x 1 x H x W

print(error_of(model, one))

# %% sum-channels
three = one.expand(-1, 3, -1, -1)  # the same numbers three times
with torch.no_grad():
    of_three = model(three)
    first = model.conv1.weight.sum(dim=1, keepdim=True)
    model.conv1 = nn.Conv2d(1, 64, 7, stride=2, padding=3, bias=False)
    model.conv1.weight.copy_(first)
    of_one = model(one)

print((of_three - of_one).abs().max().item(), "of", of_three.std().item())

# %% small
model = resnet18(weights=weights).eval()


def sizes_of(model, pictures):
    sizes = []
    for name, part in model.named_children():
        if name in {"avgpool", "fc"}:
            return sizes
        pictures = part(pictures)
        sizes.append(pictures.shape[-1])


for size in (224, 28):
    print(size, "→", sizes_of(model, torch.zeros(1, 3, size, size)))

# %% too-small
# Wrong on purpose: do not copy.
tiny = torch.zeros(1, 3, 28, 28, device="meta")
for name in ("vit_b_16", "densenet121", "convnext_tiny"):
    with torch.device("meta"):
        other = models.get_model(name, weights=None).eval()
    print(name, error_of(other, tiny), sep="\n")

# %% keep-small
model.conv1.stride = (1, 1)
model.maxpool = nn.Identity()

print(28, "→", sizes_of(model, torch.zeros(1, 3, 28, 28)))

# %% inception
# Wrong on purpose: do not copy.
model = models.inception_v3(weights=None, init_weights=False)
batch, labels = torch.rand(2, 3, 299, 299), torch.tensor([0, 3])
outputs = model(batch)

print(outputs._fields)
print(error_of(F.cross_entropy, outputs, labels))
print(error_of(lambda: outputs.log_softmax(dim=1)))

# %% both-heads
model.fc = nn.Linear(model.fc.in_features, 5)
model.AuxLogits.fc = nn.Linear(model.AuxLogits.fc.in_features, 5)
outputs = model(batch)
loss = F.cross_entropy(outputs.logits, labels)
loss = loss + 0.4 * F.cross_entropy(outputs.aux_logits, labels)
with torch.no_grad():
    scores = model.eval()(batch[:1])

print(list(outputs.logits.shape), list(outputs.aux_logits.shape))
print("evaluation:", type(scores).__name__)

# %% classes
# Wrong on purpose: do not copy.
made = error_of(resnet18, weights=weights, num_classes=5)
load = resnet18(num_classes=5).load_state_dict
loaded = error_of(load, downloaded[weights], strict=False)

print(made, loaded, sep="\n")

# %% old
# Wrong on purpose: do not copy.
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    old = resnet18(pretrained=True)

for each in said:
    print(each.message)
print(models.ResNet50_Weights.DEFAULT)

# %% middle-size
print(64, "→", sizes_of(resnet18().eval(), torch.zeros(1, 3, 64, 64)))


# %% gray-solution
def gray_preprocess(picture):
    resized = v2.functional.resize(picture, 256, antialias=True)
    cut = v2.functional.center_crop(resized, 224)
    numbers = v2.functional.pil_to_tensor(cut) / 255
    return (numbers - sum(preprocess.mean) / 3) / (sum(preprocess.std) / 3)


# %% gray-check
numbers = gray_preprocess(gray)
white = gray_preprocess(Image.new("L", (300, 300), 255))

if list(numbers.shape) != [1, 224, 224]:
    print("Not yet: the shape is", list(numbers.shape))
elif abs(white.mean().item() - 2.4355) > 0.01:
    print("Not yet: white should become 2.44, not", white.mean().item())
else:
    print("Right: one channel, and white becomes 2.44")
