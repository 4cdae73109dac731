"""
Quantize to 4 bits, and quantize convolutions and LSTMs
=======================================================

Few bits a weight, training with them, and layers that aren't linear.
"""

# %% digits
import copy
import io

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

digits = load_digits()
images = torch.tensor(digits.images, dtype=torch.float32).flatten(1) / 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid, _ = order.split([1200, 300, 297])


def make_model():
    return nn.Sequential(
        nn.Linear(64, 128),
        nn.ReLU(),
        nn.Linear(128, 128),
        nn.ReLU(),
        nn.Linear(128, 10),
    )


def fit(model):
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for _ in range(4):
        for batch in train[torch.randperm(1200)].split(64):
            loss = F.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


# %% train
torch.manual_seed(0)
model = make_model()
fit(model)

# %% torchao
import logging

logging.disable(logging.WARNING)  # it warns of GPU parts that it can't load
from torchao.quantization import (
    Int4WeightOnlyConfig,
    Int8WeightOnlyConfig,
    IntxWeightOnlyConfig,
    quantize_,
)
from torchao.quantization.qat import QATConfig

logging.disable(logging.NOTSET)


# %% measure
def file_size(model):
    file = io.BytesIO()  # in place of a file
    torch.save(model.state_dict(), file)
    return file.tell()


def right_answers(model):
    with torch.no_grad():
        answers = model(images[valid]).argmax(dim=1)
    return (answers == labels[valid]).sum().item()


# %% few-bits
right = {"float32": right_answers(model)}
for dtype in (torch.int8, torch.int4, torch.int3, torch.int2):
    rounded = copy.deepcopy(model)
    quantize_(rounded, IntxWeightOnlyConfig(weight_dtype=dtype))
    right[str(dtype)] = right_answers(rounded)
print("right, of 300 digits:", right)

# %% aware
base = IntxWeightOnlyConfig(weight_dtype=torch.int2)
aware = copy.deepcopy(model)
quantize_(aware, QATConfig(base, step="prepare"))
fit(aware)  # each forward rounds the weights
trained_scores = aware(images[valid])
quantize_(aware, QATConfig(base, step="convert"))

kept_scores = torch.allclose(aware(images[valid]), trained_scores, atol=1e-4)
print("the same scores:", kept_scores)

# %% afterwards
afterwards = copy.deepcopy(model)
fit(afterwards)
right["trained on"] = right_answers(afterwards)
quantize_(afterwards, base)
right["then rounded to 2 bits"] = right_answers(afterwards)
right["trained with 2 bits"] = right_answers(aware)
for name in [*right][-3:]:
    print(f"{name:24}{right[name]}")

# %% by-hand
row = torch.tensor([0.50, 0.033, -0.017, 2.55])
layer = nn.Linear(4, 1, bias=False)
layer.weight = nn.Parameter(row[None])
quantize_(layer, IntxWeightOnlyConfig(weight_dtype=torch.int4))

weight = layer.weight
print("step:", weight.scale.item())
print("stored:", weight.qdata)
print("read back:", weight.dequantize())

# %% whole-bytes
sizes = [file_size(model)]
for dtype in (torch.int8, torch.int4):
    rounded = copy.deepcopy(model)
    quantize_(rounded, IntxWeightOnlyConfig(weight_dtype=dtype))
    sizes.append(file_size(rounded))
print("bytes in float32, int8 and int4:", sizes)

# %% static
from torchao.quantization.pt2e import quantize_pt2e
from torchao.quantization.pt2e.quantizer import x86_inductor_quantizer as x86

torch.manual_seed(0)
convolutions = nn.Sequential(nn.Conv2d(1, 64, 3), nn.Conv2d(64, 64, 3)).eval()
some = images[train[:32]].view(-1, 1, 8, 8)

quantizer = x86.X86InductorQuantizer()
quantizer.set_global(x86.get_default_x86_inductor_quantization_config())
program = torch.export.export(convolutions, (some,)).module()
static = quantize_pt2e.prepare_pt2e(program, quantizer)
static(some)  # measures the ranges; take more batches
static = quantize_pt2e.convert_pt2e(static)

static_state = static.state_dict()
for name, each in static_state.items():
    if each.dim() == 4:
        print(f"{name:16}{each.dtype}")
print("off by", (static(some) - convolutions(some)).abs().max().item())
static_sizes = [file_size(each) for each in (convolutions, static)]
print("bytes, before and after:", static_sizes)

# %% wrong-base
try:
    quantize_(make_model(), QATConfig(Int8WeightOnlyConfig(), step="prepare"))
except ValueError as error:
    refused_base = str(error)
    print(refused_base)

# %% int4
try:
    quantize_(copy.deepcopy(model), Int4WeightOnlyConfig())
except ImportError as error:
    without_mslk = str(error)
    print(without_mslk)

# %% quantize-dynamic
import warnings

if torch.backends.quantized.engine == "none":
    torch.backends.quantized.engine = "qnnpack"  # on a Mac
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    old = torch.ao.quantization.quantize_dynamic(model, {nn.Linear})

said = {
    str(each.message).partition("\n")[0]
    for each in caught
    if each.category is DeprecationWarning
}
print(*said, sep="\n")

# %% quantize-lstm
recurrent = nn.ModuleList([nn.LSTM(64, 128)])
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    old_lstm = torch.ao.quantization.quantize_dynamic(recurrent, {nn.LSTM})
new_lstm = copy.deepcopy(recurrent)
quantize_(new_lstm, Int8WeightOnlyConfig())

lstm_sizes = [file_size(each) for each in (recurrent, new_lstm, old_lstm)]
print("float32, quantize_, quantize_dynamic:", lstm_sizes)

# %% two-bits
layer = nn.Linear(4, 1, bias=False)
layer.weight = nn.Parameter(torch.tensor([[3.0, 1.2, -0.8, -2.0]]))
quantize_(layer, IntxWeightOnlyConfig(weight_dtype=torch.int2))
print(layer.weight.dequantize())
