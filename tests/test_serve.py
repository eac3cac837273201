"""examples/serve.py: its ASGI application, called as a server calls it."""

import asyncio
import importlib.util
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import ndformer
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    options = ["model.backbone.dim=16", "model.backbone.depth=1", "model.backbone.heads=2"]
    cfg = load(ROOT / "configs" / "mnist_small.py", options, sample=True)
    torch.manual_seed(0)
    model = build_model(cfg, "cpu")
    nn.init.normal_(model.head.get_parameter("linear.weight"))
    path = tmp_path_factory.mktemp("run") / "best.pth"
    classes = ["<b>0</b>", *"123456789"]
    checkpoint.save(path, dict(model=model.state_dict(), classes=classes, config=cfg.pretty_text))
    return path


@pytest.fixture(scope="module")
def serve() -> Any:
    spec = importlib.util.spec_from_file_location("serve", ROOT / "examples" / "serve.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Server(NamedTuple):
    application: Any
    loop: asyncio.AbstractEventLoop  # one for all requests: the lock of the application belongs to it


@pytest.fixture(scope="module")
def app(serve: Any, weights: Path) -> Iterator[Server]:
    server = Server(serve.serving(weights), asyncio.new_event_loop())
    yield server
    server.loop.close()


async def posted(app: Server, receive: Any, path: str = "/seven.png", method: str = "POST") -> list[Any]:
    """Return the messages of the application in answer to a request."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await app.application(dict(type="http", method=method, path=path, headers=[]), receive, send)
    return sent


def arriving(body: bytes, pieces: int, pause: float = 0) -> Any:
    """Return a client that sends equal pieces, and waits before each."""
    size = -(-len(body) // pieces)
    parts = [body[i * size : (i + 1) * size] for i in range(pieces)]
    left = [dict(type="http.request", body=part, more_body=i + 1 < pieces) for i, part in enumerate(parts)]

    async def receive() -> Any:
        await asyncio.sleep(pause)
        return left.pop(0)

    return receive


def asked(app: Server, path: str, body: bytes = b"", method: str = "POST") -> tuple[int, Any]:
    """Return status and JSON of an answer to a body that comes in seven pieces."""
    sent = app.loop.run_until_complete(posted(app, arriving(body, 7), path, method))
    assert (b"content-type", b"application/json") in sent[0]["headers"]
    return sent[0]["status"], json.loads(sent[1]["body"])


def png(pixels: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


PIXELS = np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)


def test_it_has_under_75_lines() -> None:
    assert len([line for line in (ROOT / "examples" / "serve.py").read_text().splitlines() if line.strip()]) < 75


def test_a_posted_file_has_the_answer_of_the_model(app: Server, weights: Path) -> None:
    status, said = asked(app, "/seven.PNG", png(PIXELS))
    answer: Any = ndformer.load(weights)(PIXELS)
    wanted = [{key: value for key, value in row.items() if key != "path"} for row in answer.table]
    assert (status, said) == (200, dict(answer=json.loads(json.dumps(wanted))))


@pytest.mark.parametrize(
    "path, body, status, sentence",
    [
        ("/seven.png", b"", 422, "the file"),
        ("/seven.png", b"no picture" * 50, 422, "the file"),
        ("/seven.png", png(PIXELS)[:-40], 422, "the file"),
        ("/seven.exe", b"MZ", 415, "ends as the file's name does: .jpg"),
        ("/", b"", 415, "ends as the file's name does"),
        ("/../../etc/passwd", b"", 415, "ends as the file's name does"),
    ],
)
def test_bad_input_is_the_callers_and_a_sentence(
    app: Server, path: str, body: bytes, status: int, sentence: str
) -> None:
    found, said = asked(app, path, body)
    assert found == status, said
    assert list(said) == ["error"]
    assert sentence in said["error"]
    assert "/tmp" not in said["error"]


def test_what_is_no_post_or_too_large_is_told(serve: Any, app: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(app, "/seven.png", method="GET") == (405, dict(error="POST a file here"))
    monkeypatch.setattr(serve, "LARGEST", 1000)
    assert asked(app, "/seven.png", bytes(1001)) == (413, dict(error="a file has at most 1000 bytes"))


def together(app: Server, *clients: Any) -> list[int]:
    async def run() -> list[int]:
        return [sent[0]["status"] for sent in await asyncio.gather(*(posted(app, client) for client in clients))]

    return app.loop.run_until_complete(run())


def test_all_files_together_have_a_limit(serve: Any, app: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """Issue 44.29: 200 files of 16 MB at once took 4.3 GiB."""
    monkeypatch.setattr(serve, "TOTAL", 3000)
    found = together(app, *(arriving(bytes(1000), 10, 0.002 * (1 + i)) for i in range(8)))
    assert set(found) == {422, 503}
    monkeypatch.setattr(serve, "TOTAL", 2**20)
    monkeypatch.setattr(serve, "REQUESTS", 5)
    found = together(app, *(arriving(bytes(100), 1, 0.01) for _ in range(20)))
    assert (found.count(422), found.count(503)) == (5, 15)
    assert asked(app, "/seven.png", png(PIXELS))[0] == 200  # nothing of them is left


def test_a_slow_client_is_left_and_one_that_went_away_too(
    serve: Any, app: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Issue 44.29: it was waited for for ever."""
    monkeypatch.setattr(serve, "SECONDS", 0.05)
    assert together(app, arriving(bytes(100), 100, 0.02)) == [408]

    async def gone() -> Any:
        return dict(type="http.disconnect")

    assert together(app, gone) == [503]
    monkeypatch.setattr(serve, "SECONDS", 5.0)
    assert asked(app, "/seven.png", png(PIXELS))[0] == 200


@pytest.mark.slow
def test_pieces_are_joined_in_linear_time(app: Server) -> None:
    """If each piece copied all before it, 16 MB in pieces of 1 kB would copy 130 GB."""
    client = arriving(bytes(16_000_000), 16_000)
    begin = time.process_time()
    assert together(app, client) == [422]
    assert time.process_time() - begin < 5


def test_its_page_and_its_text_say_that_it_is_an_example_behind_a_proxy(serve: Any) -> None:
    assert "An example" in serve.__doc__
    assert "proxy" in serve.__doc__
    assert "behind a proxy" in (ROOT / "docs" / "how-to" / "export.md").read_text()
