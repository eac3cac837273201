"""The process that decodes: a line of JSON in, a line of JSON and pixels out, until its input ends.

It is one of its own because libraries for video can hang with Python's lock held, or end the whole process, on damaged
files; this one can be done without.
"""

import json
import os
import sys

import numpy as np

from ndformer.framework import foreign
from ndformer.modalities.video.formats.backends import FACTS, FRAMES

LIBRARIES = 2**29  # bytes that they reserve, most of which they never touch


def bound_memory() -> None:
    """A decoder that asks for more than a file may take is refused it, where the system can: on Linux."""
    if sys.platform == "linux":
        import resource

        most = foreign.limit() + LIBRARIES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print is no answer
    bound_memory()
    for line in sys.stdin:
        request = json.loads(line)
        pixels: list[np.ndarray] = []
        try:
            if request["what"] == "facts":
                answer = dict(facts=FACTS[request["backend"]](request["path"]))
            else:
                frames, numbers = FRAMES[request["backend"]](request["path"], request["wanted"])
                sizes = {frame.shape for frame in frames} or {(1, 1, 3)}
                if len(sizes) > 1:
                    raise ValueError(f"its frames have sizes {' and '.join(map(str, sizes))}")
                answer, pixels = dict(shape=(len(frames), *sizes.pop()), numbers=numbers), frames
        except Exception as error:  # libraries have errors of all kinds
            answer = dict(error=" ".join(str(error).split()) or type(error).__name__)
        answers.write(json.dumps(answer).encode() + b"\n")
        for frame in pixels:
            answers.write(np.ascontiguousarray(frame).data)
        answers.flush()
