"""Read damaged videos: a backend must return well-formed frames or raise a DataError of one line, in time."""

import logging
from collections import Counter
from collections.abc import Iterable
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
SECONDS = 30.0  # in which a backend must answer, with the start of its process; a file takes milliseconds


def write_originals(folder: Path) -> dict[str, bytes]:
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
    """Return "read", "said", or how the decoding process ended. Raises AssertionError for invalid frames."""
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


def fuzz(numbers: Iterable[int], folder: Path) -> Counter[str]:
    """Read damaged files of the containers in turn with every backend. A number is the seed of its damage."""
    originals, tally = write_originals(folder), Counter[str]()
    for number in numbers:
        name = list(KINDS)[number % len(KINDS)]
        path = folder / f"{number}_{name}"  # a new name: a file that hung once is not read again
        path.write_bytes(mutated(originals[name], np.random.default_rng((0, number))))
        for backend in installed():
            try:
                tally[f"{backend} {attempt(path, backend)}"] += 1
            except BaseException as error:
                raise AssertionError(f"number {number}, {name}, {backend}: {error!r}") from error
        path.unlink()
    return tally
