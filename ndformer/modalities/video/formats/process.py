"""Client of the decoding process (child.py): requests with a timeout, and a new process after one hung or died."""

import json
import os
import re
import select
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np

from ndformer.framework.system import host_state

CODE = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from ndformer.modalities.video.formats.child import main; main()"
)
MAX_MESSAGE = 300  # characters of a library's message that are reported


class DecodingError(RuntimeError):
    """A backend failed; the message says why."""


class Decoder:
    """A decoding process, for use by the process that created it."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.lock = threading.Lock()
        self.child: subprocess.Popen[bytes] | None = None

    def ask(self, timeout: float, **request: Any) -> tuple[dict[str, Any], bytearray]:
        """Return the answer to a request, and the bytes of pixels."""
        with self.lock:
            child = self._running()
            assert child.stdin is not None
            try:
                child.stdin.write(json.dumps(request).encode() + b"\n")
                child.stdin.flush()
                until = time.monotonic() + timeout
                received = bytearray()
                while (end := received.find(b"\n")) < 0:
                    received += self._more(child, until)
                answer = json.loads(received[:end])
                del received[: end + 1]
                size = int(np.prod(answer.get("shape", [0])))
                while len(received) < size:
                    received += self._more(child, until)
            except TimeoutError:
                self.end()
                raise DecodingError(f"gave no answer for {timeout:g} s") from None
            except OSError:
                code = child.wait()
                self.end()
                raise DecodingError(f"ended the process that decodes, with code {code}") from None
            except BaseException:  # Ctrl-C: the rest of this answer would be taken for the next one
                self.end()
                raise
        if "error" in answer:
            raise DecodingError(
                re.sub(r"\[[\d:]+\] \S+: ", "", answer["error"])[:MAX_MESSAGE]
            )  # without C++ files and lines
        return answer, received

    def _more(self, child: subprocess.Popen[bytes], until: float) -> bytes:
        assert child.stdout is not None
        if not select.select([child.stdout], [], [], max(0, until - time.monotonic()))[0]:
            raise TimeoutError
        data = os.read(child.stdout.fileno(), 1 << 20)
        if not data:
            raise BrokenPipeError
        return data

    def _running(self) -> subprocess.Popen[bytes]:
        if self.child is None:
            host_state.on_exit(self.end)
            self.child = subprocess.Popen(
                [sys.executable, "-I", "-c", CODE, json.dumps(sys.path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # Ctrl-C goes to the main program, which may want to save first
            )
        return self.child

    def end(self) -> None:
        child, self.child = self.child, None
        if child is None or self.owner != os.getpid():
            return
        child.kill()
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        child.wait()


_decoder: Decoder | None = None


def decoder() -> Decoder:
    """Return this process's decoder; a forked process, such as a loader's worker, must not use its parent's."""
    global _decoder
    if _decoder is None or _decoder.owner != os.getpid():
        _decoder = Decoder()
    return _decoder
