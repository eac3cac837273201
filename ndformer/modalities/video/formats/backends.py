"""Video decoders: a function for each library that returns exactly the requested frames.

They run in their own process (process.py) and import only numpy, their library and framework.foreign. Frames are
numbered from 0 in display order. All decode forward from the start: after a seek, decord returns wrong frames for
B-frames in AVI and for open groups of pictures (HEVC, MPEG-2), the latter with correct timestamps. Only PyAV may seek
to far frames, because it reports the timestamp of each decoded frame, so that wrong frames are detected.

A text that begins with ffconcat, a playlist or a session description makes FFmpeg open the files and addresses in it.
So FFmpeg is given the demuxer explicitly, by the first bytes of a file. decord takes no demuxer and is given only files
with zero bytes, which no text demuxer accepts.
"""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework import foreign

FAR = 1000  # first requested frame from which seeking is worth it
SEEKABLE = ("mov", "matroska")  # containers with exact timestamps; MPEG's are estimated after a seek
CHECKED = 16  # leading frames whose timestamps must match the index
MISNUMBERED = (
    "mpegts",
    "mpegvideo",
    "ogg",
)  # decord starts at the second key frame of the first, and cannot open others
MAX_PIXELS = 2**26  # of a frame: 8192 x 8192
BEGINNING = 2**10
CONTAINERS = {  # FFmpeg demuxers with patterns of the first bytes
    "avi": rb"RIFF.{4}AVI[ X]",
    "mov": rb".{4}(ftyp|moov|mdat|wide|free|skip|pnot)",
    "matroska": rb"\x1a\x45\xdf\xa3",
    "mpeg": rb"\x00\x00\x01[\xba\xbb\xe0-\xef]",
    "mpegvideo": rb"\x00\x00\x01\xb3",
    "mpegts": rb"\x47.{187}\x47|.{4}\x47.{191}\x47",
    "flv": rb"FLV\x01",
    "asf": rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
    "ogg": rb"OggS\x00",
}
SAFE = dict(protocol_whitelist="file")
Decoded = tuple[list[np.ndarray], list[int]]  # frames (H, W, 3) uint8 and their numbers, without those after the end


def room(path: str, frame: np.ndarray, count: int) -> np.ndarray:
    """Return the frame; raise where `count` such frames are more than one file may take."""
    foreign.check_size(Path(path), count * frame.nbytes)
    return frame


def demuxer(path: str) -> str:
    """Return the name of FFmpeg's demuxer for a file, or raise a ValueError."""
    with foreign.opened(Path(path)) as file:
        begin = file.read(BEGINNING)
    for name, pattern in CONTAINERS.items():
        if re.match(pattern, begin, re.DOTALL) and b"\0" in begin[:64]:
            return name
    raise ValueError("it begins as no container of video does")


def _decord_reader(path: str) -> Any:
    import decord

    if (container := demuxer(path)) in MISNUMBERED:
        raise ValueError(f"it loses frames of {container}, which PyAV does not")
    return decord.VideoReader(path, ctx=decord.cpu(0), num_threads=1)


def decord_frames(path: str, indices: list[int]) -> Decoded:
    reader = _decord_reader(path)
    frames, numbers = [], []
    requested = set(indices)
    for number in range(min(len(reader), indices[-1] + 1)):
        frame = reader.next()  # skip_frames() would seek
        if number in requested:
            frames.append(room(path, frame.asnumpy(), len(frames) + 1))
            if frames[-1].shape[2] != 3:  # happens for narrow videos with a rotation
                raise ValueError("it mixes up the rows of this video")
            numbers.append(number)
    return frames, numbers


def pyav_frames(path: str, indices: list[int]) -> Decoded:
    import av

    with _open_container(av, path) as container:
        if indices[0] >= FAR:
            decoded = _seek_frames(av, path, indices)
            if decoded is not None:
                return decoded
        frames, numbers = [], []
        requested = set(indices)
        for number, frame in enumerate(container.decode(_stream(container))):
            if number in requested:
                frames.append(room(path, _pixels(frame), len(frames) + 1))
                numbers.append(number)
            if number == indices[-1]:
                break
    return frames, numbers


def _open_container(av: Any, path: str) -> Any:
    return av.open(path, format=demuxer(path), options=SAFE)


def _stream(container: Any) -> Any:
    """Return the stream that players and decord choose where a file has several."""
    stream = container.streams.best("video")
    if stream is None:
        raise ValueError("it has no pictures")
    stream.codec_context.thread_count = 1
    stream.codec_context.options = dict(max_pixels=str(MAX_PIXELS))
    return stream


def _pixels(frame: Any) -> np.ndarray:
    """Return pixels (H, W, 3) uint8, with the file's rotation applied."""
    turns = round(frame.rotation / 90) % 4  # counter-clockwise
    return np.ascontiguousarray(np.rot90(frame.to_ndarray(format="rgb24"), turns))


def _seek_frames(av: Any, path: str, indices: list[int]) -> Decoded | None:
    """Decode from the key frame before the first index; return None where timestamps do not number the frames."""
    with _open_container(av, path) as container:
        if container.format.name not in SEEKABLE:
            return None
        packets = [p.pts for p in container.demux(_stream(container)) if p.size]
    if None in packets or len(set(packets)) < len(packets):
        return None
    index = {pts: number for number, pts in enumerate(sorted(packets))}
    with av.open(path, format=demuxer(path), options=SAFE) as container:
        # the index must be correct where it can be checked
        for number, frame in zip(range(CHECKED), container.decode(_stream(container))):
            if index.get(frame.pts) != number:
                return None
    inside = [number for number in indices if number < len(packets)]
    if not inside:
        return [], []
    with _open_container(av, path) as container:
        stream, times = _stream(container), sorted(packets)
        container.seek(times[inside[0]], stream=stream, backward=True)
        frames = {}
        for frame in container.decode(stream):
            number = index.get(frame.pts)
            if number in inside:
                frames[number] = room(path, _pixels(frame), len(frames) + 1)
            if number is None or number >= inside[-1]:
                break
    return ([frames[number] for number in inside], inside) if len(frames) == len(inside) else None


def decord_facts(path: str) -> dict[str, Any]:
    reader = _decord_reader(path)
    height, width = reader.next().shape[:2]
    return dict(frames=len(reader), height=height, width=width, frames_per_second=float(reader.get_avg_fps()))


def pyav_facts(path: str) -> dict[str, Any]:
    import av

    with _open_container(av, path) as container:
        stream = _stream(container)
        first = next(container.decode(stream), None)
        if first is None:
            raise ValueError("it has no frame")
        height, width = _pixels(first).shape[:2]
        facts = dict(container=container.format.name, codec=stream.codec_context.name, streams=len(container.streams))
        facts |= dict(height=height, width=width, frames_per_second=float(stream.average_rate or 0))
    with _open_container(av, path) as container:
        facts |= dict(frames=sum(p.size > 0 for p in container.demux(_stream(container))))
    return facts


FRAMES: dict[str, Callable[[str, list[int]], Decoded]] = dict(decord=decord_frames, pyav=pyav_frames)
FACTS: dict[str, Callable[[str], dict[str, Any]]] = dict(decord=decord_facts, pyav=pyav_facts)
