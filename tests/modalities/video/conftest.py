"""Clips whose frames carry their own numbers, in the containers and codecs that people have."""

import logging
from fractions import Fraction

import numpy as np
import pytest

HEIGHT, WIDTH, LENGTH = 48, 64, 60
CLIPS = {
    "xvid.avi": dict(codec="mpeg4", tag="XVID", b_frames=0),
    "xvid_b.avi": dict(codec="mpeg4", tag="XVID", b_frames=2),  # as XviD makes them; decord seeks wrongly here
    "h264.mp4": dict(codec="libx264", b_frames=2),
    "hevc.mp4": dict(codec="libx265", options={"x265-params": "log-level=none"}),  # and here, with timestamps in order
    "mpeg2.mpg": dict(codec="mpeg2video", b_frames=2),
    "mjpeg.mov": dict(codec="mjpeg", pixels="yuvj420p"),
    "ffv1.mkv": dict(codec="ffv1", pixels="bgr0"),
    "vp9.webm": dict(codec="libvpx-vp9", options={"cpu-used": "8", "deadline": "realtime"}),
}


def picture(number):
    """(H, W, 3) uint8: eight blocks, the bits of a number."""
    bits = (number >> np.arange(8) & 1).reshape(2, 4)
    gray = np.kron(25 + 205 * bits, np.ones((HEIGHT // 2, WIDTH // 4)))
    return np.repeat(gray.astype(np.uint8)[..., None], 3, axis=2)


def numbers(frames):
    blocks = (frame.reshape(2, HEIGHT // 2, 4, WIDTH // 4, 3)[:, 6:-6, :, 4:-4].mean((1, 3, 4)) for frame in frames)
    return [int((1 << np.arange(8))[(gray > 127).ravel()].sum()) for gray in blocks]


def write_clip(path, codec, length=LENGTH, tag=None, b_frames=None, pixels="yuv420p", options=None):
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=Fraction(25), options=options or {})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixels
        stream.codec_context.gop_size = 12
        stream.codec_context.thread_count = 1
        if b_frames is not None:
            stream.codec_context.max_b_frames = b_frames
        if tag:
            stream.codec_context.codec_tag = tag
        for number in range(length):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(number), format="rgb24")))
        container.mux(stream.encode())


@pytest.fixture(scope="session")
def clips(tmp_path_factory):
    """name -> path; made once, 60 frames each."""
    pytest.importorskip("av")
    logging.getLogger("libav").setLevel(logging.CRITICAL)
    home = tmp_path_factory.mktemp("clips")
    for name, options in CLIPS.items():
        write_clip(home / name, **options)
    return {name: home / name for name in CLIPS}
