"""
Serve a model: from a function to a small server
================================================

A trained model names handwritten digits for whoever sends their pixels.
"""

# %% digits
import atexit
import contextlib
import shutil
import tempfile
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

digits = load_digits()
words = "zero one two three four five six seven eight nine"
digit_names = words.split()
names = sorted(digit_names)  # as folders are: class 0 is eight, class 1 five
pictures = torch.tensor(digits.data, dtype=torch.float32)  # 64 pixels each
labels = torch.tensor([names.index(digit_names[i]) for i in digits.target])
order = torch.randperm(1797, generator=torch.Generator().manual_seed(0))
train, test = order[:1500], order[1500:]


# %% make-model
def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(),
        nn.Linear(256, 10),
    )


def to_images(pixels):  # a batch of images, 0 for paper and 1 for ink
    return pixels.reshape(-1, 1, 8, 8) / 16


# %% trained
torch.manual_seed(0)
model = make_model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
for _ in range(5):
    for batch in train[torch.randperm(1500)].split(50):
        scores = model(to_images(pictures[batch]))
        loss = F.cross_entropy(scores, labels[batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

folder = Path(tempfile.mkdtemp())
atexit.register(shutil.rmtree, folder)  # when the program ends
path = folder / "digits.pt"
torch.save({"weights": model.state_dict(), "names": names}, path)

# %% predict
saved = torch.load(path, map_location="cpu")  # once, when the server starts
model = make_model()
model.load_state_dict(saved["weights"])
model.eval()


@torch.inference_mode()
def predict(pixels):  # a list of 64 numbers from 0 to 16
    x = torch.tensor(pixels, dtype=torch.float32)
    if x.shape != (64,) or not ((x >= 0) & (x <= 16)).all():
        raise ValueError("a picture is 64 numbers from 0 to 16")
    probabilities = model(to_images(x)).softmax(dim=1)[0]
    probability, best = probabilities.max(dim=0)
    return {"name": saved["names"][best], "probability": probability.item()}


# %% first
first = pictures[test[0]].tolist()
print(predict(first))

# %% server
from typing import Annotated

from fastapi import FastAPI
from pydantic import BaseModel, Field

Pixel = Annotated[float, Field(ge=0, le=16, allow_inf_nan=False, strict=True)]


class Picture(BaseModel):
    pixels: list[Pixel] = Field(min_length=64, max_length=64)


app = FastAPI()


@app.post("/predict")
def answer(picture: Picture):  # def, not async def
    return predict(picture.pixels)


# %% refuse
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse


@app.exception_handler(RequestValidationError)
def refuse(request, error):
    detail = [{key: e[key] for key in ("loc", "msg")} for e in error.errors()]
    return JSONResponse({"detail": detail}, status_code=422)


# %% ask
from fastapi.testclient import TestClient

client = TestClient(app)  # no port, no network
response = client.post("/predict", json={"pixels": first})
print(response.status_code, response.json())

# %% bad
import json


def send(client, pixels, path="/predict"):
    body = json.dumps({"pixels": pixels})  # also with nan
    headers = {"Content-Type": "application/json"}
    return client.post(path, content=body, headers=headers)


rest = [0.0] * 63
bad = {
    "63 numbers": rest,
    "an empty list": [],
    "a text": "0" * 64,
    "a text in the list": ["8", *rest],
    "nan": [float("nan"), *rest],
    "infinity": [float("inf"), *rest],
    "a huge number": [1e30, *rest],
}
refused = {what: send(client, pixels) for what, pixels in bad.items()}

# %% bad-table
import pandas as pd

rows = [
    [what, response.status_code, response.json()["detail"][0]["msg"]]
    for what, response in refused.items()
]
pd.DataFrame(rows, columns=["sent", "status", "msg"]).style.hide()

# %% users
import threading
from concurrent.futures import ThreadPoolExecutor

sent = [pictures[each].tolist() for each in test[:100]]
alone = [predict(pixels) for pixels in sent]
with client, ThreadPoolExecutor(8) as users:
    responses = [*users.map(send, [client] * len(sent), sent)]

found = [each.json() for each in responses]
pairs = zip(found, alone, strict=True)
others = sum(one["name"] != two["name"] for one, two in pairs)
print(f"{len(found)} answers, {others} of them with another name")


# %% watch
def watch(make_endpoint, patience):
    events, all_four = [], threading.Barrier(4)

    def work():  # in place of a long prediction
        events.append(1)  # one more is inside
        with contextlib.suppress(threading.BrokenBarrierError):
            all_four.wait(timeout=patience)  # for all, but not forever
        events.append(-1)

    watched = FastAPI()
    watched.post("/predict")(make_endpoint(work))
    with TestClient(watched) as server, ThreadPoolExecutor(4) as users:
        [*users.map(send, [server] * 4, [first] * 4)]
    return torch.tensor(events).cumsum(dim=0).tolist()


# %% plain
def plain(work):
    def endpoint(picture: Picture):
        work()

    return endpoint


# %% blocking
# Wrong on purpose: do not copy.
def blocking(work):
    async def endpoint(picture: Picture):
        work()

    return endpoint


# %% inside
inside_def = watch(plain, patience=60)
inside_async = watch(blocking, patience=1)
print("def:", inside_def)
print("async def:", inside_async)

# %% inside-drawn
import matplotlib.pyplot as plt

_, ax = plt.subplots(figsize=(6, 2.6), layout="constrained")
for label, counts, color in (
    ("def", inside_def, "#0072B2"),
    ("async def", inside_async, "#D55E00"),
):
    width, at = (4, (4.1, 4.1)) if label == "def" else (2, (7.1, 1.1))
    ax.step(range(9), [0, *counts], where="post", color=color, lw=width)
    ax.annotate(label, at, color=color, ha="left", va="bottom")
ax.set(title="Four requests: how many are inside at once")
ax.set(xlabel="requests that came in or went out", ylabel="inside")
ax.set(yticks=range(5), ylim=(0, 4.8))
ax.spines[["top", "right"]].set_visible(False)
plt.show()

# %% batch
calls = []
counter = model.register_forward_hook(lambda *_: calls.append(1))
one_by_one = [predict(pixels) for pixels in sent]
singly = len(calls)

with torch.inference_mode():
    together = model(to_images(torch.tensor(sent))).softmax(dim=1)
batched = len(calls) - singly
counter.remove()

best, places = together.max(dim=1)
same = [each["name"] for each in one_by_one] == [names[i] for i in places]
print("calls:", singly, "one by one,", batched, "together")
print("same names:", same)

# %% stream
from fastapi.responses import StreamingResponse


def names_of(many):
    for pixels in many:
        yield predict(pixels)["name"] + "\n"


@app.post("/stream")
def stream(many: list[Picture]):
    pieces = names_of([picture.pixels for picture in many])
    return StreamingResponse(pieces, media_type="text/plain")


# %% streamed
many = [{"pixels": pixels} for pixels in sent[:3]]
with client.stream("POST", "/stream", json=many) as response:
    lines = [*response.iter_lines()]
print(lines)


# %% late-error
@app.get("/late")
def late():
    pieces = names_of([first, rest])  # the second has only 63 numbers
    return StreamingResponse(pieces, media_type="text/plain")


response = TestClient(app, raise_server_exceptions=False).get("/late")
print(response.status_code, repr(response.text))


# %% block-around-yield
# Wrong on purpose: do not copy.
def modes():
    with torch.inference_mode():
        for _ in range(3):
            yield torch.is_inference_mode_enabled()


pieces = modes()
with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
    on = [thread.submit(next, pieces).result() for thread in (one, two, one)]
print(on)

# %% warm-up
graphs = []


def keep_graph(graph, inputs):  # in place of a compiler
    graphs.append(graph)
    return graph.forward


compiled = torch.compile(model, backend=keep_graph)
score = torch.inference_mode()(compiled)
seen = [len(graphs)]
for pixels in sent[:3]:  # three requests
    score(to_images(torch.tensor(pixels)))
    seen.append(len(graphs))
print("graphs before, and after each request:", seen)

compiled(to_images(torch.tensor(first)))
print("after a call without inference_mode:", len(graphs))

# %% echo
# Wrong on purpose: do not copy.
echoing = FastAPI()  # the same server without `refuse`
echoing.post("/predict")(answer)
try:
    send(TestClient(echoing), bad["nan"])
except ValueError as error:
    print(error)

response = send(TestClient(echoing, raise_server_exceptions=False), bad["nan"])
print(response.status_code, response.text)

# %% nan-out
# Wrong on purpose: do not copy.
careless = FastAPI()


@careless.post("/nan")
def nan(picture: Picture):
    return {"probability": float("nan")}


@careless.post("/typed")
def typed(picture: Picture) -> dict[str, float]:
    return {"probability": float("nan")}


@careless.post("/tensor")
def tensor(picture: Picture):
    return {"probability": torch.tensor(0.5)}


got = TestClient(careless, raise_server_exceptions=False)
given = {
    path: send(got, first, path) for path in ("/nan", "/typed", "/tensor")
}
for path, response in given.items():
    print(path, response.status_code, response.text)

# %% json-of-a-tensor
# Wrong on purpose: do not copy.
try:
    json.dumps({"probability": torch.tensor(0.25)})
except TypeError as error:
    not_json = str(error)
    print(not_json)

# %% train-mode
# Wrong on purpose: do not copy.
forgotten = make_model()
forgotten.load_state_dict(saved["weights"])  # and no eval()

tries, means = [], []
with torch.inference_mode():
    for _ in range(3):  # three times the same picture
        scores = forgotten(to_images(torch.tensor(first)))
        tries.append(scores.softmax(dim=1)[0].max().item())
        means.append(forgotten[1].running_mean[0].item())
print("probability: ", tries)
print("running mean:", means)


# %% right
def right(images):  # the share of the test digits
    with torch.inference_mode():
        best = model(images).argmax(dim=1)
    return (best == labels[test]).float().mean().item()


# %% scaled-twice
# Wrong on purpose: do not copy.
scaled = pictures[test] / 16  # a client that sends 0 to 1
accepted = send(client, scaled[0].tolist())
once = right(to_images(pictures[test]))
twice = right(to_images(scaled))
print(accepted.status_code, accepted.json())
print(f"divided once: {once:.0%} right, divided twice: {twice:.0%}")


# %% remembers
# Wrong on purpose: do not copy.
class Remembers(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.first, self.last = layers[:5], layers[5:]

    def forward(self, x):
        self.features = self.first(x)
        wait_for_the_other()
        return self.last(self.features)


# %% mixed
one_is_in = threading.Event()
both_are_in = threading.Barrier(2, timeout=60)


def wait_for_the_other():
    one_is_in.set()
    both_are_in.wait()


@torch.inference_mode()
def name_from(network, pixels):
    scores = network(to_images(torch.tensor(pixels)))
    return names[scores.argmax(dim=1).item()]


network = Remembers(model)
with ThreadPoolExecutor(2) as users:
    one = users.submit(name_from, network, sent[0])
    one_is_in.wait(timeout=60)
    two = users.submit(name_from, network, sent[1])
mixed = [one.result(), two.result()]
print("alone:   ", [each["name"] for each in alone[:2]])
print("together:", mixed)


# %% graph
# Wrong on purpose: do not copy.
def without_inference_mode(pixels):
    return model(to_images(torch.tensor(pixels))).softmax(dim=1).max()


def numbers_kept(function):
    sizes = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda x: sizes.append(x.numel()), lambda x: x
    ):
        function(first)
    return sum(sizes)


print("without:", numbers_kept(without_inference_mode))
print("with:   ", numbers_kept(predict))

# %% calls-counted
calls.clear()
counter = model.register_forward_hook(lambda *_: calls.append(1))
for pixels in sent[:20]:
    send(client, pixels)
with torch.inference_mode():
    model(to_images(torch.tensor(sent[:20])))
counter.remove()
print(len(calls))


# %% predict-many
@torch.inference_mode()
def predict_many(many):
    x = torch.tensor(many, dtype=torch.float32)
    best = model(to_images(x)).softmax(dim=1).max(dim=1)
    return [
        {"name": names[place], "probability": value}
        for value, place in zip(*map(torch.Tensor.tolist, best), strict=True)
    ]


# %% predict-many-checked
calls.clear()
counter = model.register_forward_hook(lambda *_: calls.append(1))
results = predict_many(sent)
counter.remove()
if [each["name"] for each in results] != [each["name"] for each in alone]:
    print("Not yet: each picture should get the name that it gets alone")
elif not all(type(each["probability"]) is float for each in results):
    print("Not yet: JSON takes Python numbers, not tensors")
elif len(calls) != 1:
    print("Not yet: one call of the model is enough")
else:
    print("Right: one call for", len(results), "pictures")
