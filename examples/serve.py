"""A trained model behind HTTP: POST a file, and get its answer as JSON. Any ASGI server runs it (pip install uvicorn).

python examples/serve.py work_dirs/mnist_small_sample
curl --data-binary @seven.png http://127.0.0.1:8000/seven.png          (the ending of the name says what is in it)

An example with limits of its own: TLS and users are the business of a proxy before it (nginx, Caddy).
"""

import asyncio
import json
import sys
import tempfile
from http import HTTPStatus
from pathlib import Path, PurePosixPath

import ndformer
from ndformer.framework.errors import DataError

LARGEST, TOTAL = 16 * 2**20, 64 * 2**20  # bytes of a file, and of all that arrive or wait
REQUESTS, SECONDS = 32, 20.0  # at once, and in which a file has to arrive
BUSY = HTTPStatus.SERVICE_UNAVAILABLE, "too many files at once: try again later"


def serving(path):
    """The ASGI application for a run's folder or a file of weights."""
    model, turn, bodies = ndformer.load(path), asyncio.Lock(), {}

    def answer(name, body):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, f"sent{name.suffix.lower()}")
            file.write_bytes(body)
            try:
                rows = model(file).table
            except (DataError, ValueError) as error:
                return HTTPStatus.UNPROCESSABLE_ENTITY, str(error).replace(str(file), "the file")
        return HTTPStatus.OK, [{key: value for key, value in row.items() if key != "path"} for row in rows]

    async def refused(receive, body):
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            if len(body) > LARGEST:
                return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a file has at most {LARGEST} bytes"
            if message["type"] == "http.disconnect" or sum(map(len, bodies.values())) > TOTAL:
                return BUSY
            more = message.get("more_body", False)

    async def answered(scope, receive):
        name, body = PurePosixPath(scope["path"]), bytearray()
        if scope["method"] != "POST":
            return HTTPStatus.METHOD_NOT_ALLOWED, "POST a file here"
        if name.suffix.lower() not in model.prepared.endings:
            known = ", ".join(model.prepared.endings)
            return HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the path ends as the file's name does: {known}"
        if len(bodies) >= REQUESTS:
            return BUSY
        try:
            bodies[id(body)] = body
            if wrong := await asyncio.wait_for(refused(receive, body), SECONDS):
                return wrong
            async with turn:  # one at a time: each takes all cores
                return await asyncio.to_thread(answer, name, body)
        except asyncio.TimeoutError:
            return HTTPStatus.REQUEST_TIMEOUT, f"a file has to arrive within {SECONDS:g} seconds"
        finally:
            del bodies[id(body)]

    async def app(scope, receive, send):
        if scope["type"] == "http":
            status, answer = await answered(scope, receive)
            text = json.dumps(dict(answer=answer) if status == HTTPStatus.OK else dict(error=answer)).encode()
            await send(
                dict(type="http.response.start", status=status, headers=[(b"content-type", b"application/json")])
            )
            await send(dict(type="http.response.body", body=text))

    return app


if __name__ == "__main__":
    try:
        import uvicorn  # pyright: ignore[reportMissingImports]
    except ImportError:
        sys.exit("serving takes an ASGI server: pip install uvicorn")
    uvicorn.run(serving(sys.argv[1]), limit_concurrency=2 * REQUESTS, timeout_keep_alive=5)
