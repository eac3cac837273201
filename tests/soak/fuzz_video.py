"""Damaged videos: frames that are right in form, or one sentence; no crash of the asking process, and no hang.

python -m tests.soak.fuzz_video --count 10000     files, of six containers in turn, each read by both backends
python -m tests.soak.fuzz_video --minutes 15      as many as that gives, from where --start says
"""

import argparse
import logging
import tempfile
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.modalities.video.formats.files import VideoFile, installed
from tests.soak.fuzz import mutated

KINDS = {
    "xvid.avi": ("mpeg4", 2),
    "h264.mp4": ("libx264", 2),
    "h264.mkv": ("libx264", 0),
    "mpeg2.mpg": ("mpeg2video", 2),
    "mjpeg.mov": ("mjpeg", None),
    "vp9.webm": ("libvpx-vp9", None),
}
HEIGHT, WIDTH, LENGTH, WANTED = 32, 64, 14, [0, 1, 6, 13, 40]
SECONDS = 30.0  # that a backend has for an answer, the start of its process included; a file takes milliseconds


def originals(folder: Path) -> dict[str, bytes]:
    import av

    logging.getLogger("libav").setLevel(logging.CRITICAL)
    pixels = np.random.default_rng(0).integers(0, 256, (LENGTH, 4, 8, 3), dtype=np.uint8).repeat(8, 1).repeat(8, 2)
    for name, (codec, b_frames) in KINDS.items():
        with av.open(str(folder / name), "w") as container:
            stream = container.add_stream(codec, rate=Fraction(25))
            stream.width, stream.height = WIDTH, HEIGHT
            stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
            stream.codec_context.thread_count = 1
            if b_frames is not None:
                stream.codec_context.max_b_frames = b_frames
            for frame in pixels:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            container.mux(stream.encode())
    return {name: (folder / name).read_bytes() for name in KINDS}


def attempt(path: Path, backend: str) -> str:
    """ "read", "said", or how the process that decodes ended; anything else is raised."""
    try:
        frames, numbers = VideoFile(path, backend, SECONDS).frames(WANTED)  # pyright: ignore[reportArgumentType]
    except DataError as error:
        if "\n" in str(error).strip():
            raise AssertionError(f"not one line: {error}") from error
        return "hung" if "no answer" in str(error) else "died" if "ended the process" in str(error) else "said"
    if frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[::3] != (len(numbers), 3):
        raise AssertionError(f"frames {frames.dtype} {frames.shape} of numbers {numbers}")
    if numbers != sorted(set(numbers)) or not set(numbers) <= set(WANTED):
        raise AssertionError(f"numbers {numbers}")
    return "read"


def fuzz(numbers: range, seed: int, folder: Path, until: float = float("inf")) -> tuple[int, Counter[str]]:
    """How many files, and what became of them."""
    whole, tally, done = originals(folder), Counter[str](), 0
    for n in numbers:
        if time.monotonic() > until:
            break
        name = list(KINDS)[n % len(KINDS)]
        path = folder / f"{n}_{name}"  # of its own: what hung once is not asked again
        path.write_bytes(mutated(whole[name], np.random.default_rng((seed, n))))
        for backend in installed():
            try:
                tally[f"{backend} {attempt(path, backend)}"] += 1
            except BaseException as error:
                raise AssertionError(f"number {n} of seed {seed}, {name}, {backend}: {error!r}") from error
        path.unlink()
        done += 1
    return done, tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, help="damaged files")
    parser.add_argument("--start", type=int, default=0, help="the number of the first")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    begin, left, total = given.start, given.count, Counter[str]()
    until, started = time.monotonic() + 60 * given.minutes, time.monotonic()
    while left and time.monotonic() < until:
        with tempfile.TemporaryDirectory() as folder:
            done, tally = fuzz(range(begin, begin + min(left, 200)), given.seed, Path(folder), until)
        begin, left, total = begin + done, left - done, total + tally
        told = ", ".join(f"{name} {count}" for name, count in sorted(total.items()))
        print(f"{begin - given.start} files in {time.monotonic() - started:.0f} s: {told}", flush=True)


if __name__ == "__main__":
    main()
