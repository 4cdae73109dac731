"""The claims of docs/deploy/serve.md."""

import gc
import http.client
import json
import math
import runpy
import socket
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from extensions.evidence.counterexamples import edits, no_error
from tests.helpers.programs import resumed

pytest.importorskip("fastapi")

FUNCTION = ("digits", "make-model", "trained", "predict", "first")
APP = ("server", "refuse", "ask", "bad")  # one app
SERVER = (*FUNCTION, APP)
USERS = (*SERVER, "users")
WAYS = (*SERVER, "right", "scaled-twice")


def run_of(snippet, *cells):
    """Run these cells behind a model that is hardly trained, once."""
    return resumed(snippet.edit("in range(5):", "in range(1):"), *cells)


def quick(snippet, *cells):
    """Do the same with twenty pictures, and without a second of waiting."""
    fewer = snippet.edit("in test[:100]", "in test[:20]")
    sooner = fewer.text.replace("patience=1)", "patience=0.1)")
    return run_of(replace(fewer, text=sooner), *cells)


def alone_in(run, pixels):
    """Return the name and the probability, computed in another way."""
    model = run.make_model()
    model.load_state_dict(run.saved["weights"])
    model.eval()
    with torch.no_grad():
        scores = model(torch.tensor(pixels).float().view(1, 1, 8, 8) / 16)
    shares = scores[0].exp() / scores[0].exp().sum()
    return run.names[scores[0].argmax()], shares.max().item()


def is_right(run, answer, pixels):
    """Check an answer, whose last digits may differ."""
    name, probability = alone_in(run, pixels)
    assert answer["name"] == name
    assert answer["probability"] == pytest.approx(probability, rel=1e-3)


def alike(one, two):
    """Compare answers of two threads, whose last digits may differ."""
    assert one["name"] == two["name"]
    assert one["probability"] == pytest.approx(two["probability"], rel=1e-5)


def error_of(call, *inputs):
    """Return the error of a call, whatever its kind."""
    try:
        call(*inputs)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "no error"


# Do this


def test_predict_returns_plain_values(snippet):
    run = run_of(snippet, *FUNCTION)

    answers = [run.predict(run.pictures[i].tolist()) for i in run.test[:20]]
    for answer, i in zip(answers, run.test[:20].tolist(), strict=True):
        assert [type(value) for value in answer.values()] == [str, float]
        is_right(run, answer, run.pictures[i].tolist())
    assert json.loads(json.dumps(answers)) == answers
    assert run.predict(run.first) == run.predict(run.first) == answers[0]


@pytest.mark.parametrize(
    "kind", [tuple, torch.tensor], ids=["tuple", "tensor"]
)
@pytest.mark.filterwarnings("ignore:To copy construct")
def test_predict_returns_plain_values__also_for_a(snippet, kind):
    run = run_of(snippet, *FUNCTION)
    assert run.predict(kind(run.first)) == run.predict(run.first)
    with_integers = [int(each) for each in run.first]
    assert run.predict(with_integers) == run.predict(run.first)


def test_predict_returns_plain_values__also_trained(snippet):
    run = resumed(snippet, *WAYS)
    named = [run.predict(run.pictures[i].tolist())["name"] for i in run.test]
    truth = [run.digit_names[run.digits.target[i]] for i in run.test]
    right = sum(map(str.__eq__, named, truth))
    assert right / len(truth) > 0.85


@edits(
    ("a tensor", "probability.item()", "probability"),
    ("a number for the name", 'saved["names"][best]', "best.item()"),
    ("training mode", "model.eval()", "model.train()"),
    ("without the division", "8, 8) / 16", "8, 8)"),
    ("transposed", "reshape(-1, 1, 8, 8)", "reshape(-1, 1, 8, 8).mT"),
)
def test_predict_returns_plain_values__but_not_with(snippet, old, new, fails):
    """The values are tensors or numbers, or come from another input."""
    fails(test_predict_returns_plain_values, snippet.edit(old, new))


WRONG = {
    "63 numbers": [0.0] * 63,
    "65 numbers": [0.0] * 65,
    "nothing": [],
    "rows": [[0.0] * 8] * 8,
    "two pictures": [[0.0] * 64] * 2,
    "nan": [math.nan] + [0.0] * 63,
    "nan at the end": [0.0] * 63 + [math.nan],
    "infinity": [math.inf] + [0.0] * 63,
    "-1": [-1.0] + [0.0] * 63,
    "17": [17.0] + [0.0] * 63,
    "a little below 0": [0.0] * 63 + [-1e-9],
    "a little above 16": [0.0] * 63 + [16.00001],
    "255": [255.0] * 64,
}


def test_predict_checks_its_input(snippet, text=None):
    run = run_of(snippet, *FUNCTION)
    for pixels in [text] if text else WRONG.values():
        said = error_of(run.predict, pixels)
        assert said == "ValueError: a picture is 64 numbers from 0 to 16"
    for pixels in ([0.0] * 64, [16.0] * 64, run.first):
        with no_error():
            run.predict(pixels)


@edits(
    ("any size", "x.shape != (64,) or ", ""),
    ("nan", "not ((x >= 0) & (x <= 16)).all()", "x.min() < 0 or x.max() > 16"),
    ("negative numbers", "(x >= 0) & (x <= 16)", "x <= 16"),
    ("large numbers", "(x >= 0) & (x <= 16)", "x >= 0"),
)
def test_predict_checks_its_input__but_not_for(snippet, old, new, fails):
    """A check that is left out, or that `nan` passes."""
    fails(test_predict_checks_its_input, snippet.edit(old, new))


@pytest.mark.parametrize("text", ["a text", ["8"] * 64], ids=["text", "texts"])
def test_predict_checks_its_input__ends_with(snippet, text, fails):
    """A text raises an error of `torch.tensor` before the check."""
    fails(test_predict_checks_its_input, snippet, text)


def test_the_server_answers_alike(snippet):
    run = run_of(snippet, *SERVER)

    assert run.response.status_code == 200
    alike(run.response.json(), run.predict(run.first))
    for i in run.test[:10]:
        pixels = run.pictures[i].tolist()
        response = run.client.post("/predict", json={"pixels": pixels})
        assert response.status_code == 200
        alike(response.json(), run.predict(pixels))
        is_right(run, response.json(), pixels)


def opened(port):
    """Connect to a server at a port, without looking up a host."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.sock = socket.socket()
    connection.sock.settimeout(60)
    connection.sock.connect(("127.0.0.1", port))
    return connection


def asked(port, pixels):
    """Ask a server at a port."""
    body = json.dumps({"pixels": pixels})
    headers = {"Content-Type": "application/json", "Connection": "close"}
    with closing(opened(port)) as connection:
        connection.request("POST", "/predict", body, headers)
        response = connection.getresponse()
        return response.status, json.loads(response.read())


@contextmanager
def serving(app):
    """Start a server at a free port, and end it in any case."""
    uvicorn = pytest.importorskip("uvicorn")
    before = set(threading.enumerate())
    config = uvicorn.Config(
        app,
        log_level="critical",
        lifespan="off",
        timeout_graceful_shutdown=60,
    )
    server = uvicorn.Server(config)
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))  # a free port
        listening.listen()
        port = listening.getsockname()[1]
        options = {"sockets": [listening]}
        thread = threading.Thread(
            target=server.run, kwargs=options, daemon=True
        )
        thread.start()
        try:
            while thread.is_alive() and not server.started:
                thread.join(timeout=0.01)
            assert server.started
            yield port
        finally:
            server.should_exit = True
            started = set(threading.enumerate()) - before
            for each in started:  # told to end, but perhaps not yet out
                each.join(timeout=120)
            assert [each.name for each in started if each.is_alive()] == []


def test_the_server_answers_alike__also_behind_uvicorn(snippet):
    run = run_of(snippet, *SERVER)
    sent = [run.pictures[i].tolist() for i in run.test[:24]]
    with serving(run.app) as port:
        with ThreadPoolExecutor(6) as users:
            found = [*users.map(asked, [port] * 24, sent)]
        refused = [asked(port, pixels) for pixels in run.bad.values()]
    assert [status for status, _ in found] == [200] * 24
    for (_, answer), pixels in zip(found, sent, strict=True):
        alike(answer, run.predict(pixels))
    assert [status for status, _ in refused] == [422] * len(run.bad)


def test_the_server_answers_alike__also_from_a_file(snippet, tmp_path):
    """The four blocks, below their imports and the path, are a server."""
    run = run_of(snippet, *SERVER)
    blocks = ("make-model", "predict", "server", "refuse")
    head = f"import torch\nfrom torch import nn\n\npath = {str(run.path)!r}\n"
    source = "\n".join(str(snippet.cell(name).source) for name in blocks)
    file = tmp_path / "server.py"
    file.write_text(head + source, encoding="utf-8")
    client = run.TestClient(runpy.run_path(str(file))["app"])
    for i in run.test[:5]:
        pixels = run.pictures[i].tolist()
        alike(run.send(client, pixels).json(), run.predict(pixels))
    assert run.send(client, run.bad["nan"]).status_code == 422


@edits(
    ("another input", "predict(picture.pixels)", "predict([0.0] * 64)"),
    ("reversed", "predict(picture.pixels)", "predict(picture.pixels[::-1])"),
    ("training mode", "model.eval()", "model.train()"),
)
def test_the_server_answers_alike__but_not_with(snippet, old, new, fails):
    """The endpoint passes on another picture, or the answers vary."""
    fails(test_the_server_answers_alike, snippet.edit(old, new))


# How it works

REASONS = {
    "63 numbers": "at least 64 items",
    "an empty list": "at least 64 items",
    "a text": "valid list",
    "a text in the list": "valid number",
    "nan": "finite number",
    "infinity": "finite number",
    "a huge number": "less than or equal to 16",
}
MORE = {
    "65 numbers": [0.0] * 65,
    "a negative number": [-0.5] + [0.0] * 63,
    "17": [0.0] * 63 + [17],
    "a little below 0": [0.0] * 63 + [-1e-9],
    "a little above 16": [0.0] * 63 + [16.00001],
    "true": [True] + [0.0] * 63,
    "null": None,
    "null in the list": [None] + [0.0] * 63,
    "an object": {"0": 1.0},
    "rows": [[0.0] * 8] * 8,
    "nan, and too short": [math.nan],
    "-infinity": [-math.inf] * 64,
    "a large integer": [10**400] + [0] * 63,
}


def post(run, body):
    """Send bytes as they are."""
    headers = {"Content-Type": "application/json"}
    return run.client.post("/predict", content=body, headers=headers)


def refuses(response):
    """Check that an answer names reasons, and nothing of the input."""
    assert response.status_code == 422
    for each in response.json()["detail"]:
        assert sorted(each) == ["loc", "msg"]
        assert each["loc"][0] == "body"
        assert each["msg"]


def test_bad_input_gets_422(snippet, body=None):
    if body is not None:
        run = run_of(snippet, *SERVER)
        refuses(post(run, body))
        return

    with no_error():
        run = run_of(snippet, *SERVER)
    assert run.bad.keys() == run.refused.keys() == REASONS.keys()
    for what, response in run.refused.items():
        refuses(response)
        assert REASONS[what] in response.json()["detail"][0]["msg"]
    calls = []
    hook = run.model.register_forward_hook(lambda *_: calls.append(1))
    try:
        for pixels in (*run.bad.values(), *MORE.values()):
            with no_error():
                response = run.send(run.client, pixels)
            refuses(response)
    finally:
        hook.remove()
    assert calls == []


BODIES = {
    "no body": b"",
    "not JSON": b"pixels",
    "a list": b"[]",
    "another key": b'{"picture": []}',
    "cut off": b'{"pixels": [1, 2',
    "half a character": b'{"pixels": ["\\ud800"]}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bad_input_gets_422__also_for(snippet, body):
    test_bad_input_gets_422(snippet, body)


@edits(
    ("any minimum", "min_length=64, max_length", "max_length"),
    ("any maximum", "min_length=64, max_length=64", "min_length=64"),
    ("no least number", "ge=0, le=16", "le=16"),
    ("no largest number", "ge=0, le=16", "ge=0"),
    ("no check for nan", "le=16, allow_inf_nan=False", "le=16"),
    ("conversion of text", "nan=False, strict=True", "nan=False"),
    ("another status", "status_code=422", "status_code=400"),
    ("the input", '("loc", "msg")', '("loc", "msg", "input")'),
    (
        "the handler of FastAPI",
        "@app.exception_handler(RequestValidationError)\n",
        "",
    ),
)
def test_bad_input_gets_422__but_not_with(snippet, old, new, fails):
    """A check that is missing, or an answer that repeats a `nan`."""
    fails(test_bad_input_gets_422, snippet.edit(old, new))


UNREADABLE = {
    "a number of 5000 digits": b'{"pixels": [' + b"1" * 5000 + b"]}",
    "lists nested deeply": b"[" * 100_000,
    "bytes that are no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_bad_input_gets_422__ends_with(snippet, body, fails):
    """What Python cannot read at all gets status 400."""
    assert post(run_of(snippet, *SERVER), body).status_code == 400
    fails(test_bad_input_gets_422, snippet, body)


def test_users_get_their_own_answers(snippet):
    run = quick(snippet, *USERS)

    assert len(run.found) == len(run.alone) == len(run.sent) == 20
    assert len({each["probability"] for each in run.found}) > 10
    for found, pixels in zip(run.found, run.sent, strict=True):
        is_right(run, found, pixels)
    for found, alone in zip(run.found, run.alone, strict=True):
        alike(found, alone)
    assert run.others == 0


@pytest.mark.parametrize("count", [2, 32], ids="{} users".format)
def test_users_get_their_own_answers__also_with(snippet, count):
    run = quick(snippet, *USERS)
    with ThreadPoolExecutor(count) as users:
        found = [*users.map(run.predict, run.sent * 5)]
    for answer, alone in zip(found, run.alone * 5, strict=True):
        alike(answer, alone)


@pytest.mark.parametrize(
    "layer",
    [
        lambda: nn.LSTM(8, 16, batch_first=True),
        lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True),
        lambda: nn.MultiheadAttention(8, 2, batch_first=True),
    ],
    ids=["LSTM", "TransformerEncoderLayer", "MultiheadAttention"],
)
def test_users_get_their_own_answers__also_of(layer):
    torch.manual_seed(0)
    model = layer().eval()
    inputs = [torch.randn(1, 5, 8) for _ in range(64)]

    @torch.inference_mode()
    def predict(x):
        attends = isinstance(model, nn.MultiheadAttention)
        result = model(x, x, x) if attends else model(x)
        return result[0] if isinstance(result, tuple) else result

    alone = [predict(x) for x in inputs]
    with ThreadPoolExecutor(8) as users:
        found = [*users.map(predict, inputs)]
    for one, two in zip(alone, found, strict=True):
        torch.testing.assert_close(one, two)


@edits(
    ("training mode", "model.eval()", "model.train()"),
    ("one answer for all", "predict(picture.pixels)", "predict(first)"),
)
def test_users_get_their_own_answers__but_not_with(snippet, old, new, fails):
    """In training mode no answer repeats; or the server keeps one answer."""
    fails(test_users_get_their_own_answers, snippet.edit(old, new))


WATCH = (*SERVER, "users", "watch", "plain", "blocking")
INSIDE = (*WATCH, "inside")


def test_async_def_takes_one_at_a_time(snippet):
    run = quick(snippet, *INSIDE)

    assert run.inside_def == [1, 2, 3, 4, 3, 2, 1, 0]
    assert run.inside_async == [1, 0] * 4


def test_async_def_takes_one_at_a_time__also_with_run_in_threadpool(snippet):
    from fastapi.concurrency import run_in_threadpool

    run = quick(snippet, *WATCH)

    def waiting(work):
        async def endpoint(picture: run.Picture):
            await run_in_threadpool(work)

        return endpoint

    assert run.watch(waiting, patience=60) == [1, 2, 3, 4, 3, 2, 1, 0]


def test_async_def_takes_one_at_a_time__also_when_it_awaits_before(snippet):
    import asyncio

    run = quick(snippet, *WATCH)

    def waiting(work):
        async def endpoint(picture: run.Picture):
            await asyncio.sleep(0)
            work()

        return endpoint

    assert run.watch(waiting, patience=0.1) == [1, 0] * 4


@edits(
    (
        "two times async def",
        "watch(plain, patience=60)",
        "watch(blocking, patience=0.1)",
    ),
    (
        "two times def",
        "watch(blocking, patience=1)",
        "watch(plain, patience=60)",
    ),
)
def test_async_def_takes_one_at_a_time__but_not_with(snippet, old, new, fails):
    """Both are of one kind."""
    fails(test_async_def_takes_one_at_a_time, snippet.edit(old, new))


OF_MODEL = ("predict", "first", *APP, "users", "batch")  # also trains it
BATCH = (*FUNCTION[:3], OF_MODEL)


def test_a_batch_takes_one_call(snippet):
    run = quick(snippet, *BATCH)

    assert (run.singly, run.batched) == (len(run.sent), 1) == (20, 1)
    assert run.together.shape == (20, 10)
    for row, pixels in zip(run.together, run.sent, strict=True):
        name, probability = alone_in(run, pixels)
        assert run.names[row.argmax()] == name
        assert row.max().item() == pytest.approx(probability, rel=1e-3)
    assert run.same
    assert run.one_by_one == run.alone


@edits(
    (
        "a loop",
        "model(to_images(torch.tensor(sent)))",
        "torch.cat([model(to_images(torch.tensor(each))) for each in sent])",
    ),
    ("training mode", "together = model(", "together = model.train()("),
)
def test_a_batch_takes_one_call__but_not_with(snippet, old, new, fails):
    """There is a call for each picture, or they influence each other."""
    fails(test_a_batch_takes_one_call, snippet.edit(old, new))


OF_APP = (*APP, "users", "stream", "streamed")
STREAM = (*FUNCTION, OF_APP)


def test_each_piece_is_sent_at_once(snippet, patience=60, count=3):
    run = quick(snippet, *STREAM)
    assert run.lines == [each["name"] for each in run.alone[:3]]

    pictures = [run.Picture(pixels=pixels) for pixels in run.sent[:count]]
    app = run.FastAPI()
    app.get("/")(lambda: run.stream(pictures))
    arrived, in_time = threading.Semaphore(1), []
    hook = run.model.register_forward_pre_hook(
        lambda *_: in_time.append(arrived.acquire(timeout=patience))
    )
    lines = []
    try:
        with serving(app) as port, closing(opened(port)) as connection:
            connection.request("GET", "/")
            response = connection.getresponse()
            while line := response.readline().decode().strip():
                lines.append(line)
                arrived.release()  # only now is the next one predicted
    finally:
        hook.remove()
    assert in_time == [True] * count
    assert lines == [each["name"] for each in run.alone[:count]]


@pytest.mark.parametrize("count", [1, 20], ids="{} pictures".format)
def test_each_piece_is_sent_at_once__also_for(snippet, count):
    test_each_piece_is_sent_at_once(snippet, count=count)


EACH = "names_of([picture.pixels for picture in many])"


@edits(
    ("one text", EACH, f"[''.join({EACH})]"),
    ("a list", EACH, f"[*{EACH}]"),
    ("nothing", "for pixels in many:", "for pixels in many[:0]:"),
)
def test_each_piece_is_sent_at_once__but_not_with(snippet, old, new, fails):
    """All is computed before the first piece, or nothing is yielded."""
    fails(test_each_piece_is_sent_at_once, snippet.edit(old, new), 0.05)


LATE = (*FUNCTION, (*OF_APP, "late-error"))


def test_a_late_error_has_status_200(snippet):
    run = quick(snippet, *LATE)

    assert run.response.status_code == 200
    assert run.response.text == run.alone[0]["name"] + "\n"
    with pytest.raises(ValueError, match="a picture is 64 numbers"):
        run.TestClient(run.app).get("/late")


def test_a_late_error_has_status_200__also_behind_uvicorn(snippet):
    """The connection is closed before the end of the answer."""
    run = quick(snippet, *LATE)
    with serving(run.app) as port, closing(opened(port)) as connection:
        connection.request("GET", "/late")
        response = connection.getresponse()
        assert response.status == 200
        with pytest.raises(http.client.IncompleteRead) as caught:
            response.read()
    assert caught.value.partial.decode() == run.alone[0]["name"] + "\n"


@edits(
    ("a right picture", "names_of([first, rest])", "names_of([first, first])"),
    ("an error at once", "names_of([first, rest])", "names_of([rest, first])"),
    ("a list", "names_of([first, rest])", "[*names_of([first, rest])]"),
)
def test_a_late_error_has_status_200__but_not_with(snippet, old, new, fails):
    """There is no error, or it comes before the first piece."""
    fails(test_a_late_error_has_status_200, snippet.edit(old, new))


BLOCK = (*USERS, "block-around-yield")
AROUND = "    with torch.inference_mode():\n        for _ in range(3):\n    "


def test_a_block_misses_other_threads(snippet):
    run = quick(snippet, *BLOCK)
    assert run.on == [True, False, True]


OTHER_MODES = {
    "no_grad": ("no_grad()", "not torch.is_grad_enabled()"),
    "autocast": ('autocast("cpu")', 'torch.is_autocast_enabled("cpu")'),
}


@pytest.mark.parametrize("mode", OTHER_MODES)
def test_a_block_misses_other_threads__also_with(snippet, mode):
    block, is_on = OTHER_MODES[mode]
    other = AROUND.replace("inference_mode()", block)
    edited = snippet.edit(AROUND, other)
    edited = edited.edit("torch.is_inference_mode_enabled()", is_on)
    test_a_block_misses_other_threads(edited)


@edits(
    ("one thread", "in (one, two, one)", "in (one, one, one)"),
    (
        "a block in the loop",
        AROUND,
        "    for _ in range(3):\n        with torch.inference_mode():\n    ",
    ),
)
def test_a_block_misses_other_threads__but_not_with(snippet, old, new, fails):
    """The mode is turned on where the piece is computed."""
    fails(test_a_block_misses_other_threads, snippet.edit(old, new))


def test_a_block_misses_other_threads__but_not_a_decorator(snippet, fails):
    """Decorated, the generator has its mode in each thread."""
    edited = snippet.edit(
        AROUND, "    if True:\n        for _ in range(3):\n    "
    )
    edited = edited.edit("def modes", "@torch.inference_mode()\ndef modes")
    assert quick(edited, *BLOCK).on == [True, True, True]
    fails(test_a_block_misses_other_threads, edited)


WARM = (*USERS, "warm-up")


@pytest.fixture
def compiled_anew():
    """Forget what was compiled, before and after."""
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.usefixtures("compiled_anew")
def test_the_first_request_compiles(snippet):
    run = quick(snippet, *WARM)
    assert run.seen == [0, 1, 1, 1]


@pytest.mark.usefixtures("compiled_anew")
@edits(
    ("no compiler", "torch.compile(model, backend=keep_graph)", "model"),
    (
        "a warm-up",
        "seen = [len(graphs)]",
        "score(to_images(torch.tensor(first))); seen = [len(graphs)]",
    ),
    (
        "another mode each time",
        "    score(to_images",
        "    [score, compiled][len(seen) % 2](to_images",
    ),
)
def test_the_first_request_compiles__but_not_with(snippet, old, new, fails):
    """After a warm-up in the same mode, the first request finds its graph."""
    fails(test_the_first_request_compiles, snippet.edit(old, new))


@pytest.mark.usefixtures("compiled_anew")
def test_a_warm_up_needs_the_same_mode(snippet):
    run = quick(snippet, *WARM)
    assert len(run.graphs) == 2


@pytest.mark.usefixtures("compiled_anew")
@pytest.mark.parametrize(
    "mode",
    [torch.enable_grad, torch.no_grad],
    ids=["gradients", "no_grad"],
)
def test_a_warm_up_needs_the_same_mode__also_before_the_request(mode):
    graphs = []

    def keep(graph, _inputs):
        graphs.append(graph)
        return graph.forward

    compiled = torch.compile(nn.Linear(3, 2).eval(), backend=keep)
    x = torch.rand(1, 3)
    with mode():
        compiled(x)
    with torch.inference_mode():
        compiled(x)
    assert len(graphs) == 2


@pytest.mark.usefixtures("compiled_anew")
@edits(
    (
        "compiled(to_images(torch.tensor(first)))",
        "score(to_images(torch.tensor(first)))",
    )
)
def test_a_warm_up_needs_the_same_mode__but_not(snippet, old, new, fails):
    """Under `inference_mode`, the same graph serves again."""
    fails(test_a_warm_up_needs_the_same_mode, snippet.edit(old, new))


# What goes wrong

ECHO = (*SERVER, "echo")
COMPLIANT = "Out of range float values are not JSON compliant"


def test_nan_in_gives_500(snippet):
    run = run_of(snippet, *ECHO)

    assert run.response.status_code == 500
    assert run.response.text == "Internal Server Error"
    with pytest.raises(ValueError, match=COMPLIANT):
        run.send(run.TestClient(run.echoing), run.bad["nan"])
    assert run.send(run.client, run.bad["nan"]).status_code == 422


@pytest.mark.parametrize("value", [math.inf, -math.inf], ids=["inf", "-inf"])
def test_nan_in_gives_500__also_for(snippet, value):
    run = run_of(snippet, *ECHO)
    quiet = run.TestClient(run.echoing, raise_server_exceptions=False)
    assert run.send(quiet, [value] * 64).status_code == 500
    assert run.send(quiet, [17.0] * 64).status_code == 422


@edits(
    ("another number", '[float("nan"), *rest]', "[17.0, *rest]"),
    ("the handler", "echoing = FastAPI()", "echoing = app"),
)
def test_nan_in_gives_500__but_not_with(snippet, old, new, fails):
    """JSON holds the number, or `refuse` leaves it out."""
    fails(test_nan_in_gives_500, snippet.edit(old, new))


OUT = (*SERVER, "nan-out")


def test_nan_out_is_null(snippet):
    run = run_of(snippet, *OUT)

    assert run.given["/nan"].status_code == 500
    assert run.given["/typed"].status_code == 200
    assert run.given["/typed"].text == '{"probability":null}'
    with pytest.raises(ValueError, match=COMPLIANT):
        run.send(run.TestClient(run.careless), run.first, "/nan")


@edits(
    (
        "a number in one",
        'picture: Picture):\n    return {"probability": float("nan")}',
        'picture: Picture):\n    return {"probability": 0.5}',
    ),
    (
        "a number in the other",
        'float]:\n    return {"probability": float("nan")}',
        'float]:\n    return {"probability": 0.5}',
    ),
)
def test_nan_out_is_null__but_not_with(snippet, old, new, fails):
    """JSON holds 0.5."""
    fails(test_nan_out_is_null, snippet.edit(old, new))


@edits(("(picture: Picture) -> dict[str, float]:", "(picture: Picture):"))
def test_nan_out_is_null__but_not_without(snippet, old, new, fails):
    """Without a type, both give 500."""
    fails(test_nan_out_is_null, snippet.edit(old, new))


def test_nan_out_is_null__also_for_another_type(snippet):
    edited = snippet.edit("-> dict[str, float]:", "-> dict:")
    test_nan_out_is_null(edited)


def test_a_tensor_arrives_empty(snippet, value=None):
    run = run_of(snippet, *OUT)
    if value is not None:
        app = run.FastAPI()
        app.get("/")(lambda: {"result": value})
        asks = run.TestClient(app, raise_server_exceptions=False)
        assert asks.get("/").text == '{"result":{}}'
        return

    assert run.given["/tensor"].status_code == 200
    assert run.given["/tensor"].json() == {"probability": {}}


TENSORS = {
    "many numbers": lambda: torch.rand(10),
    "a batch": lambda: torch.rand(4, 10),
    "an integer": lambda: torch.tensor(3),
    "a parameter": lambda: nn.Parameter(torch.rand(2)),
}


@pytest.mark.parametrize("make", TENSORS.values(), ids=TENSORS)
def test_a_tensor_arrives_empty__also_for(snippet, make):
    test_a_tensor_arrives_empty(snippet, make())


@edits(("torch.tensor(0.5)}", "torch.tensor(0.5).item()}"))
def test_a_tensor_arrives_empty__but_not(snippet, old, new, fails):
    """`item()` is a Python number."""
    fails(test_a_tensor_arrives_empty, snippet.edit(old, new))


def test_a_tensor_arrives_empty__ends_where_the_type_is_named(snippet, fails):
    """With `-> dict[str, float]`, FastAPI converts a tensor of one number."""
    old = "def tensor(picture: Picture):"
    edited = snippet.edit(old, old[:-1] + " -> dict[str, float]:")
    run = run_of(edited, *OUT)
    assert run.given["/tensor"].json() == {"probability": 0.5}
    fails(test_a_tensor_arrives_empty, edited)


def test_a_tensor_arrives_empty__ends_with_rows_of_two(snippet, fails):
    """Rows of two, as of a model of two classes, give status 500."""
    fails(test_a_tensor_arrives_empty, snippet, torch.rand(3, 2))


@pytest.mark.parametrize(
    "value", [np.float32(0.5), np.zeros(2)], ids=["number", "array"]
)
def test_a_tensor_arrives_empty__ends_with_a_numpy(snippet, value, fails):
    """A NumPy `float32`, or an array, gives status 500."""
    fails(test_a_tensor_arrives_empty, snippet, value)


def test_a_tensor_arrives_empty__ends_with_a_float64(snippet, fails):
    """A NumPy `float64` is a Python `float` as well, and arrives."""
    fails(test_a_tensor_arrives_empty, snippet, np.float64(0.5))


TRAIN = (*FUNCTION, "train-mode")


NO_TENSOR = "Object of type Tensor is not JSON serializable"


def test_json_takes_no_tensor(snippet):
    run = run_of(snippet, *OUT, "json-of-a-tensor")
    assert getattr(run, "not_json", "") == NO_TENSOR
    for tensor in (torch.rand(3), torch.tensor(1), torch.tensor([])):
        for value in (tensor, [tensor], {"scores": tensor}):
            with pytest.raises(TypeError, match=NO_TENSOR):
                json.dumps(value)
            json.dumps(str(value))


@edits(
    (
        "item",
        "torch.tensor(0.25)})\nexcept",
        "torch.tensor(0.25).item()})\nexcept",
    ),
    (
        "tolist",
        "torch.tensor(0.25)})\nexcept",
        "torch.tensor(0.25).tolist()})\nexcept",
    ),
)
def test_json_takes_no_tensor__but_not_with(snippet, old, new, fails):
    """These return a number of Python."""
    fails(test_json_takes_no_tensor, snippet.edit(old, new))


def test_train_mode_answers_differ(snippet):
    run = run_of(snippet, *TRAIN)

    assert len(run.tries) == len(run.means) == 3
    assert len(set(run.tries)) == 3
    kept = run.saved["weights"]["1.running_mean"][0].item()
    assert len({kept, *run.means}) == 4


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_train_mode_answers_differ__also_from(snippet, seed):
    old = "torch.manual_seed(0)\nmodel"
    edited = snippet.edit(old, old.replace("0", str(seed)))
    test_train_mode_answers_differ(edited)


@edits(
    ("eval()", "# and no eval()", "; forgotten.eval()"),
    ("no dropout", "nn.Dropout()", "nn.Dropout(0.0)"),
    ("no momentum", "BatchNorm2d(16)", "BatchNorm2d(16, momentum=0.0)"),
)
def test_train_mode_answers_differ__but_not_with(snippet, old, new, fails):
    """Nothing is drawn, or nothing moves."""
    fails(test_train_mode_answers_differ, snippet.edit(old, new))


def test_dividing_twice_is_silent(snippet):
    run = run_of(snippet, *WAYS)

    assert run.accepted.status_code == 200
    ink = run.to_images(run.scaled).max().item()
    assert ink == pytest.approx(1 / 16)
    assert run.once > 0.85
    assert run.twice < 0.5
    statuses = [
        run.send(run.client, pixels.tolist()).status_code
        for pixels in run.scaled[:20]
    ]
    assert statuses == [200] * 20


def test_dividing_twice_is_silent__also_after_five_epochs(snippet):
    run = resumed(snippet, *WAYS)
    assert run.twice < 0.5
    assert run.once > 0.85


@pytest.mark.parametrize("seed", [1], ids="seed {}".format)
def test_dividing_twice_is_silent__also_from(snippet, seed):
    old = "torch.manual_seed(0)\nmodel"
    edited = snippet.edit(old, old.replace("0", str(seed)))
    test_dividing_twice_is_silent(edited)


@edits(
    ("divided once", "pictures[test] / 16  # a", "pictures[test]  # a"),
    (
        "a division that the check finds",
        "[test] / 16  # a",
        "[test] * 16  # a",
    ),
)
def test_dividing_twice_is_silent__but_not(snippet, old, new, fails):
    """The pixels are as in training, or outside 0 to 16."""
    fails(test_dividing_twice_is_silent, snippet.edit(old, new))


MIXED = (*USERS, ("remembers", "mixed"))


def test_self_mixes_users(snippet):
    run = quick(snippet, *MIXED)

    one, two = (each["name"] for each in run.alone[:2])
    assert one != two
    assert run.mixed == [two, two]


def test_self_mixes_users__also_for_ten_pairs(snippet, monkeypatch):
    run = quick(snippet, *MIXED)
    used = run.Remembers.forward.__globals__
    both = threading.Barrier(2, timeout=60)
    monkeypatch.setitem(used, "wait_for_the_other", both.wait)
    scores = torch.inference_mode()(run.Remembers(run.model))
    for i in range(0, 20, 2):
        x = [run.to_images(torch.tensor(run.sent[i + j])) for j in (0, 1)]
        with ThreadPoolExecutor(2) as users:
            one, two = users.map(scores, x)
        torch.testing.assert_close(one, two)
        with torch.no_grad():
            expected = [run.model(each) for each in x]
        assert not torch.allclose(*expected)


def test_self_mixes_users__but_not_with_a_local_variable(snippet, fails):
    """A local variable belongs to the call."""
    edited = snippet.edit(
        "self.features = self.first(x)", "features = self.first(x)"
    ).edit("self.last(self.features)", "self.last(features)")
    fails(test_self_mixes_users, edited)


def test_self_mixes_users__but_not_one_after_the_other(snippet, fails):
    """If the first user is out before the second one comes, nothing mixes."""
    edited = snippet.edit("    both_are_in.wait()\n", "").edit(
        "one_is_in.wait(timeout=60)", "one.result()"
    )
    fails(test_self_mixes_users, edited)


GRAPH = (*FUNCTION, "graph")


def test_without_it_the_graph_is_saved(snippet):
    run = run_of(snippet, *GRAPH)

    kept = run.without_inference_mode(run.first)
    assert kept.requires_grad
    assert kept.grad_fn is not None
    assert run.numbers_kept(run.without_inference_mode) > 1000
    assert run.numbers_kept(run.predict) == 0


@edits(
    (
        "no_grad",
        "def without_inference_mode",
        "@torch.no_grad()\ndef without_inference_mode",
    ),
    (
        "no inference_mode",
        "@torch.inference_mode()\ndef predict(",
        "def predict(",
    ),
)
def test_without_it_the_graph_is_saved__but_not_with(snippet, old, new, fails):
    """Both record a graph, or none does."""
    fails(test_without_it_the_graph_is_saved, snippet.edit(old, new))


@pytest.mark.usefixtures("frozen")
def test_without_it_the_graph_is_saved__also_until_the_answer_goes(snippet):
    run = run_of(snippet, *GRAPH)

    class Kept:
        def __init__(self, x):
            self.x = x.detach()  # not in a circle with its own node

    seen = []

    def keep(x):
        kept = Kept(x)
        seen.append(weakref.ref(kept))
        return kept

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda kept: kept.x):
        answer = run.without_inference_mode(run.first)
    recent = [answer]
    del answer
    gc.collect()
    assert any(each() is not None for each in seen)
    recent.clear()
    gc.collect()
    assert [each() for each in seen] == [None] * len(seen)


# Try it


def test_a_batch_takes_one_call__also_after_twenty_requests(snippet):
    run = quick(snippet, *BATCH, "calls-counted")
    assert len(run.calls) == 21


def test_a_batch_takes_one_call__also_with_predict_many(snippet):
    cells = (*BATCH, "predict-many", "predict-many-checked")
    run = quick(snippet, *cells)
    assert len(run.calls) == 1
    assert [each["name"] for each in run.results] == [
        each["name"] for each in run.alone
    ]
