"""Which container a file of video is, by its first bytes: FFmpeg would also take lists of other files for one.

A text that begins with ffconcat, a playlist or a session description has it open the files and addresses that they
name. So it is told which demuxer to use, and decord, which cannot be told, is given only what no other one takes: texts
have no zero bytes, after which those that look for words stop.
"""

import re
from pathlib import Path

from ndformer.framework import foreign

BEGINNING = 2**10
CONTAINERS = {  # FFmpeg's demuxer by what files begin with
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
    """FFmpeg's name of the one that reads it, or a ValueError."""
    with foreign.opened(Path(path)) as file:
        begin = file.read(BEGINNING)
    for name, pattern in CONTAINERS.items():
        if re.match(pattern, begin, re.DOTALL) and b"\0" in begin[:64]:
            return name
    raise ValueError("it begins as no container of video does")
