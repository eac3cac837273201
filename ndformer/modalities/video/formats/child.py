"""The decoding process: it reads requests as lines of JSON and writes lines of JSON and pixels, until its input ends.

Decoding is done in another process because video libraries can hang while they hold Python's lock, or kill the process,
on damaged files.
"""

import json
import os
import sys

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.video.formats.backends import FACTS, FRAMES

LIBRARIES = 2**29  # bytes that the libraries reserve, most of them never used


def bound_memory() -> None:
    """Limit the memory of this process to what a file may take, on Linux."""
    if sys.platform == "linux":
        import resource

        max_bytes = foreign.limit() + LIBRARIES
        resource.setrlimit(resource.RLIMIT_DATA, (max_bytes, max_bytes))


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of the libraries goes to standard error
    bound_memory()
    for line in sys.stdin:
        request = json.loads(line)
        pixels: list[np.ndarray] = []
        try:
            if request["kind"] == "facts":
                answer = dict(facts=FACTS[request["backend"]](request["path"]))
            else:
                frames, numbers = FRAMES[request["backend"]](request["path"], request["indices"])
                sizes = {frame.shape for frame in frames} or {(1, 1, 3)}
                if len(sizes) > 1:
                    raise ValueError(f"its frames have sizes {' and '.join(map(str, sizes))}")
                answer, pixels = dict(shape=(len(frames), *sizes.pop()), numbers=numbers), frames
        except Exception as error:  # libraries raise errors of any kind
            answer = dict(error=" ".join(str(error).split()) or type(error).__name__)
        answers.write(json.dumps(answer).encode() + b"\n")
        for frame in pixels:
            answers.write(np.ascontiguousarray(frame).data)
        answers.flush()
