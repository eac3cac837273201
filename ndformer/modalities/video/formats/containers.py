"""Detection of video containers by their first bytes, because FFmpeg would also open lists of other files.

A text that begins with ffconcat, a playlist or a session description makes FFmpeg open the files and addresses in it.
So FFmpeg is given the demuxer explicitly. decord takes no demuxer and is given only files with zero bytes, which no
text demuxer accepts.
"""

import re
from pathlib import Path

from ndformer.framework import foreign

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


def demuxer(path: str) -> str:
    """Return the name of FFmpeg's demuxer for a file, or raise a ValueError."""
    with foreign.opened(Path(path)) as file:
        begin = file.read(BEGINNING)
    for name, pattern in CONTAINERS.items():
        if re.match(pattern, begin, re.DOTALL) and b"\0" in begin[:64]:
            return name
    raise ValueError("it begins as no container of video does")
