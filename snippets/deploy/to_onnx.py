"""
Convert a model to ONNX, and run it
===================================

Convert a model for ONNX Runtime, and check that the file answers alike.
"""

# %% digits
import atexit
import copy
import logging
import re
import shutil
import tempfile
import warnings
from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
# Leave out "torchvision is not installed", and warnings inside the exporter.
for name in ("torch.onnx", "torch.utils._pytree"):
    logging.getLogger(name).setLevel(logging.CRITICAL)
warnings.filterwarnings("ignore", category=FutureWarning)

digits = load_digits()
pixels = torch.tensor(digits.images, dtype=torch.float32)[:, None]  # 0 to 16
labels = torch.tensor(digits.target)
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, valid = order[:1400], order[1400:]
held_out = pixels[valid]
mean, std = pixels[train].mean(), pixels[train].std()


# %% net
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.dropout = nn.Dropout()
        self.linear = nn.Linear(128, 10)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x).relu(), 2)
        x = F.max_pool2d(self.conv2(x).relu(), 2)
        return self.linear(self.dropout(x.flatten(1)))


# %% fit
def fit(seed=0):
    torch.manual_seed(seed)
    net = Net()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for _ in range(4):
        for batch in train[torch.randperm(len(train))].split(64):
            scores = net((pixels[batch] - mean) / std)
            loss = F.cross_entropy(scores, labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return net


net = fit()


# %% reader
class Reader(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)

    def forward(self, pixels):  # from 0 to 16, as they come
        scores = self.net((pixels - self.mean) / self.std)
        return scores.softmax(dim=1)


# %% program
model = Reader(net).eval()
sizes = ({0: torch.export.Dim("batch")},)  # of axis 0 of the input
program = torch.export.export(model, (pixels[:2],), dynamic_shapes=sizes)


# %% onnx
onnx_program = torch.onnx.export(
    program,
    f=folder / "digits.onnx",
    input_names=["pixels"],
    output_names=["probabilities"],
    dynamo=True,
    external_data=False,
    verbose=False,
)


# %% check
import onnxruntime

session = onnxruntime.InferenceSession(folder / "digits.onnx")
with torch.no_grad():
    wanted = model(held_out).numpy()

answers = {}
for size in (1, 2, len(held_out)):
    feed = {"pixels": held_out[:size].numpy()}
    (answers[size],) = session.run(None, feed)
    far = np.abs(answers[size] - wanted[:size]).max()
    same = (answers[size].argmax(1) == wanted[:size].argmax(1)).sum()
    print(f"{same} of {size} digits agree, {far:.0e} apart")


# %% dict
class MeanOfTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(100, 8)

    def forward(self, batch):
        mask = batch["mask"][:, :, None]  # 0 for padding
        vectors = self.embedding(batch["ids"]) * mask
        return vectors.sum(dim=1) / mask.sum(dim=1)


tokens = MeanOfTokens().eval()
ids = torch.tensor([[5, 7, 0], [3, 1, 4]])
batch = {"ids": ids, "mask": (ids > 0).long()}
try:
    torch.onnx.export(tokens, (batch,), dynamo=True, verbose=False)
except Exception as error:
    of_dict = str(error)
    print(*re.findall(r"missing a required.*", of_dict))

rows = {0: torch.export.Dim("batch")}
of_tokens = torch.export.export(
    tokens, (batch,), dynamic_shapes=({"ids": rows, "mask": rows},)
)
tokens_onnx = torch.onnx.export(of_tokens, dynamo=True, verbose=False)
with_ids = onnxruntime.InferenceSession(
    tokens_onnx.model_proto.SerializeToString()
)
inputs = [each.name for each in with_ids.get_inputs()]
feed = {"batch_ids": ids.numpy(), "batch_mask": batch["mask"].numpy()}
(of_file,) = with_ids.run(None, feed)
print(inputs, np.abs(of_file - tokens(batch).detach().numpy()).max())


# %% lstm
class Names(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.linear = nn.Linear(8, 4)

    def forward(self, names):
        hidden, _ = self.layer(names)
        return self.linear(hidden[:, -1])


lstm = Names(nn.LSTM(3, 8, batch_first=True)).eval()
names = torch.zeros(2, 5, 3)  # two names of five letters
with warnings.catch_warnings(action="ignore"):
    torch.onnx.export(
        lstm,
        (names,),
        f=folder / "names.onnx",
        input_names=["names"],
        dynamic_axes={"names": {0: "batch", 1: "length"}},
        dynamo=False,
    )

reads_names = onnxruntime.InferenceSession(folder / "names.onnx")
longer = torch.rand(7, 9, 3)
(of_longer,) = reads_names.run(None, {"names": longer.numpy()})
far = np.abs(of_longer - lstm(longer).detach().numpy()).max()
print(f"seven names of nine letters: {far:.0e} apart")


# %% half
half = copy.deepcopy(model).half()
of_half = torch.export.export(half, (pixels[:2].half(),), dynamic_shapes=sizes)
half_onnx = torch.onnx.export(
    of_half, input_names=["pixels"], dynamo=True, verbose=False
)
half_session = onnxruntime.InferenceSession(
    half_onnx.model_proto.SerializeToString()
)
feed = {"pixels": held_out.numpy().astype(np.float16)}
(in_float16,) = half_session.run(None, feed)
far = np.abs(in_float16 - wanted).max()
print(f"{in_float16.dtype}: {far:.4f} apart")


# %% train-mode
# Wrong on purpose: do not copy.
class Features(Reader):  # the network without its last layer
    def forward(self, pixels):
        x = (pixels - self.mean) / self.std
        x = F.max_pool2d(self.net.conv1(x).relu(), 2)
        x = F.max_pool2d(self.net.conv2(x).relu(), 2)
        return self.net.dropout(x.flatten(1))


features = Features(net).train()
drops = torch.export.export(features, (pixels[:2],), dynamic_shapes=sizes)
torch.onnx.export(
    drops, f=folder / "features.onnx", dynamo=True, verbose=False
)
dropping = onnxruntime.InferenceSession(folder / "features.onnx")
(name,) = (each.name for each in dropping.get_inputs())
first, second = (
    dropping.run(None, {name: held_out.numpy()})[0] for _ in range(2)
)
print(f"{(first != second).mean():.0%} of the features change")


# %% train-mode-drawn
import matplotlib.pyplot as plt

with torch.no_grad():
    of_model = features.eval()(held_out).numpy()
_, axes = plt.subplots(figsize=(5, 4.2), layout="constrained")
axes.scatter(of_model[:40], first[:40], 5, color="#D55E00")
axes.set_xlabel("a feature of the model, in eval() mode")
axes.set_ylabel("the same feature from the file")
axes.set_title("The file sets half to 0, and doubles the others")
plt.show()


# %% inputs
feeds = {
    "float64": {"pixels": held_out.double().numpy()},
    "another size": {"pixels": np.zeros((2, 1, 9, 9), np.float32)},
    "no channels": {"pixels": held_out[:, 0].numpy()},
    "another name": {"x": held_out.numpy()},
    "a tensor": {"pixels": held_out},
}
said = {}
for name, feed in feeds.items():
    try:
        session.run(None, feed)
    except Exception as error:  # each is of a class of its own
        said[name] = str(error)
        print(f"{name}: {error}\n")


# %% apart
onnx_program.save(folder / "apart.onnx", external_data=True)
print(sorted(path.name for path in folder.glob("apart*")))
(folder / "apart.onnx.data").unlink()
try:
    onnxruntime.InferenceSession(folder / "apart.onnx")
except Exception as error:
    missing = str(error)
    print(missing.partition(' "')[0])


# %% median
class AboveMedian(nn.Module):
    def forward(self, x):
        return x - x.median(dim=1, keepdim=True).values


class AboveMiddle(nn.Module):
    def forward(self, x):
        middle = (x.shape[1] - 1) // 2
        return x - x.sort(dim=1).values[:, middle, None]


example = (torch.tensor([[1.0, 5.0, 2.0], [7.0, 3.0, 9.0]]),)
converted = {}
for each in (AboveMedian(), AboveMiddle()):
    above = torch.export.export(each, example, dynamic_shapes=sizes)
    try:
        to_onnx = torch.onnx.export(above, dynamo=True, verbose=False)
        converted[type(each)] = to_onnx
    except Exception as error:
        unconverted = str(error)
        lines = r"Failed to convert.*?model\.|No ONNX function.*"
        print(*re.findall(lines, unconverted), sep="\n")


# %% groups
class GroupMeans(nn.Module):
    def forward(self, x, group):
        means = torch.zeros(2)
        return means.scatter_reduce(0, group, x, "mean", include_self=False)


grouped = torch.tensor([1.0, 3.0, 10.0, 20.0]), torch.tensor([0, 0, 1, 1])
of_groups = torch.export.export(GroupMeans(), grouped)
groups_onnx = torch.onnx.export(of_groups, dynamo=True, verbose=False)
print("model:", GroupMeans()(*grouped))
print("file: ", groups_onnx(*grouped)[0])


# %% opset
with redirect_stderr(StringIO()) as log:
    older = torch.onnx.export(
        program, dynamo=True, verbose=False, opset_version=13
    )
opset = older.model_proto.opset_import[0].version
print(opset)
print(*re.findall(r"Failed to convert.*", log.getvalue()))


# %% newer
newer = onnx_program.model_proto
newer.ir_version = 99  # as a later version of the exporter might write it
try:
    onnxruntime.InferenceSession(newer.SerializeToString())
except Exception as error:
    too_new = str(error)
    print(re.findall(r"Unsupported model.*", too_new)[0])


# %% providers
print(onnxruntime.get_available_providers())
with warnings.catch_warnings(record=True, action="always") as caught:
    on_gpu = onnxruntime.InferenceSession(
        folder / "digits.onnx",
        providers=["CUDAExecutionProvider", "CPUExecutionProvider"],
    )
print(*(each.message for each in caught))
print(on_gpu.get_providers())


# %% quiz
print(session.get_inputs()[0].name, session.get_inputs()[0].type)
