"""Writer of videos, for generated datasets."""

from pathlib import Path

import numpy as np

FRAME_RATE = 25


def write_avi(path: Path, frames: np.ndarray) -> None:
    """Write (T, H, W, 3) uint8 as MPEG-4 in AVI with B-frames, as XviD makes it."""
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=FRAME_RATE)
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt, stream.bit_rate = "yuv420p", 200_000
        stream.codec_context.codec_tag, stream.codec_context.max_b_frames = "XVID", 2
        stream.codec_context.thread_count = 1
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())
