"""
Compile, export and serve
=========================

Errors of tools that read a model as a graph, each with what mends it.
"""

# %% stages
import torch
from torch import nn


def broken(graph, inputs):
    raise RuntimeError("a compiler that is not there")


model, inputs = nn.Linear(2, 2), torch.ones(1, 2)
ended = []
for backend in (broken, "eager"):
    try:
        torch.compile(model, backend=backend)(inputs)
        ended.append("no error")
    except Exception as error:
        ended.append(str(error).partition("\n\n")[0])
print(*ended, sep="\n\n")


# %% arguments
class Scaled(nn.Module):
    def forward(self, inputs, *, by=2.0):
        return by * inputs


refused = ""
try:
    torch.jit.script(Scaled())
except torch.jit.frontend.NotSupportedError as error:
    refused = str(error).partition(":\n")[0]
print(f"{refused}\n")

program = torch.export.export(Scaled(), (inputs,), {"by": 3.0})
scaled = program.module()(inputs, by=3.0)
print(scaled)


# %% constant-output
class Detector(nn.Module):
    def __init__(self, is_buffer):
        super().__init__()
        anchors = torch.ones(2)
        if is_buffer:
            self.register_buffer("anchors", anchors)
        else:
            self.anchors = anchors

    def forward(self, inputs):
        return 2 * inputs, self.anchors


refusals = []
for is_buffer in (False, True):
    try:
        torch.jit.trace(Detector(is_buffer), inputs)
        refusals.append("")
    except RuntimeError as error:
        refusals.append(str(error))
print(refusals[0])


# %% annotated
class Repeated(nn.Module):
    def forward(self, inputs, times):
        return times * inputs


class Annotated(nn.Module):
    def forward(self, inputs, times: int):
        return times * inputs


results = []
for each in (Repeated(), Annotated()):
    try:
        results.append(torch.jit.script(each)(inputs, 3))
    except RuntimeError as error:
        results.append(str(error).partition("\nDeclaration")[0])
print(*results, sep="\n\n")

# %% quantized
import warnings

from torch.ao import quantization
from torch.ao.nn.quantized import FloatFunctional

warnings.filterwarnings("ignore")  # torch.ao.quantization is deprecated


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.quant = quantization.QuantStub()
        self.conv = nn.Conv2d(1, 1, 3, padding=1)
        self.skip = FloatFunctional()
        self.dequant = quantization.DeQuantStub()

    def forward(self, images):
        images = self.quant(images)
        return self.dequant(self.skip.add(self.conv(images), images))


class WithPlus(Block):
    def forward(self, images):
        images = self.quant(images)
        return self.dequant(self.conv(images) + images)


class WithoutStub(Block):
    def forward(self, images):
        return self.dequant(self.conv(images))


def quantized(model):
    torch.manual_seed(0)
    images = torch.randn(2, 1, 8, 8)
    engine = torch.backends.quantized.engine
    model.eval().qconfig = quantization.get_default_qconfig(engine)
    prepared = quantization.prepare(model)
    prepared(images)
    try:
        return quantization.convert(prepared)(images)
    except NotImplementedError as error:
        return str(error).partition(". ")[0]


made = [quantized(each()) for each in (WithPlus, WithoutStub, Block)]
print(*made[:2], f"{len(made[2])} answers", sep="\n\n")
