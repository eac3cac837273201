"""The process that decodes: a line of JSON in, a line of JSON and pixels out, until its input ends.

It is one of its own because libraries for video can hang with Python's lock held, or end the whole process, on damaged
files; this one can be done without.
"""

import json
import os
import sys

import numpy as np

from ndformer.modalities.video.formats.backends import FACTS, FRAMES


def main() -> None:
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever libraries print is no answer
    for line in sys.stdin:
        request = json.loads(line)
        pixels = b""
        try:
            if request["what"] == "facts":
                answer = dict(facts=FACTS[request["backend"]](request["path"]))
            else:
                frames, numbers = FRAMES[request["backend"]](request["path"], request["wanted"])
                stacked = np.stack(frames) if frames else np.zeros((0, 1, 1, 3), np.uint8)  # (n, H, W, 3)
                answer, pixels = dict(shape=stacked.shape, numbers=numbers), stacked.tobytes()
        except Exception as error:  # libraries have errors of all kinds
            answer = dict(error=" ".join(str(error).split()) or type(error).__name__)
        answers.write(json.dumps(answer).encode() + b"\n" + pixels)
        answers.flush()
