"""Writers of the formats that nothing but tests writes, and streams to write."""

import struct

import h5py
import numpy as np
import pytest

from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.formats.nmnist_bin import write_bin
from ndformer.modalities.events.formats.stream import Events


def random_events(n, height=32, width=32, seed=0, until=200_000):
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, until, n))
    return Events.from_arrays(
        rng.integers(0, width, n), rng.integers(0, height, n), t, rng.integers(0, 2, n), height, width
    )


def rows(events):
    """(x, y, t, p) of each event."""
    return list(zip(*(getattr(events, name).tolist() for name in "xytp")))


def same(found, events, size=None):
    for name in "xytp":
        assert np.array_equal(getattr(found, name), getattr(events, name)), name
    assert size is None or (found.height, found.width) == size


def write_aedat2(path, events):
    address = (127 - events.x.astype(int)) << 1 | (127 - events.y.astype(int)) << 8 | (1 - events.p.astype(int))
    body = np.stack([address, events.t], 1).astype(">u4").tobytes()
    path.write_bytes(b"#!AER-DAT2.0\r\n# AEChip: ch.unizh.ini.jaer.chip.retina.DVS128\r\n" + body)


def write_words(path, events, head, clock, pixel):
    """Words of clock(upper bits of the time), where they change, and of pixel(number, x, lower bits and row, p)."""
    words, high = [], None
    for i, (x, y, t, p) in enumerate(rows(events)):
        if t >> 6 != high:
            high = t >> 6
            words += clock(high)
        words += pixel(i, x, (t & 63) << 22 | y, p)
    path.write_bytes(head + b"% end\n" + np.array(words, "<u4").tobytes())


def write_evt2(path, events):
    clock, pixel = lambda high: [8 << 28 | high & 0xFFFFFFF], lambda i, x, low, p: [p << 28 | low | x << 11]
    write_words(path, events, b"% evt 2.0\n% geometry 32x32\n", clock, pixel)


def write_evt21(path, events):
    """A word and a mask for each event, the word first."""
    pixel = lambda i, x, low, p: [p << 28 | low | (x & ~31) << 11, 1 << (x & 31)]
    head = b"% format EVT21;height=32;width=32;endianness=legacy\n"
    write_words(path, events, head, lambda high: [8 << 28 | high, 0], pixel)


def write_evt4(path, events):
    """Every other event behind a mask."""

    def pixel(i, x, low, p):
        masked = i % 2
        word = (12 if masked else 10) + p << 28 | low | (x & ~31 if masked else x) << 11
        return [word] + [1 << (x & 31)] * masked

    write_words(path, events, b"% format EVT4;height=32;width=32\n", lambda high: [14 << 28 | high], pixel)


def write_evt3(path, events):
    """Neighbors of one time, row and polarity as vectors."""
    words, high, low, row, i, every = [], None, None, None, 0, rows(events)
    while i < len(every):
        x, y, t, p = every[i]
        if t >> 12 != high:
            high, low = t >> 12, None
            words.append(8 << 12 | high & 0xFFF)
        if t & 0xFFF != low:
            low = t & 0xFFF
            words.append(6 << 12 | low)
        if y != row:
            row = y
            words.append(y)
        run = [x]
        while (
            i + len(run) < len(every)
            and every[i + len(run)][1:] == (y, t, p)
            and run[-1] < every[i + len(run)][0] < x + 20
        ):
            run.append(every[i + len(run)][0])
        if len(run) > 1:
            mask = sum(1 << (column - x) for column in run)
            words += [3 << 12 | p << 11 | x, 4 << 12 | mask & 0xFFF, 5 << 12 | mask >> 12]
        else:
            words.append(2 << 12 | p << 11 | x)
        i += len(run)
    path.write_bytes(b"% format EVT3;height=32;width=32\n% end\n" + np.array(words, "<u2").tobytes())


def structured(events, names=("x", "y", "t", "p")):
    table = np.zeros(len(events), list(zip(names, ("<u2", "<u2", "<i8", "<i1"))))
    for name, column in zip(names, "xytp"):
        table[name] = getattr(events, column)
    return table


def write_npy(path, events):
    np.save(path, structured(events, ("x", "y", "timestamp", "polarity")))


def write_hdf5(path, events):
    with h5py.File(path, "w") as file:
        for name, values in dict(x=events.x, y=events.y, t=events.t - 1000, p=events.p).items():
            file[f"events/{name}"] = values
        file["t_offset"] = 1000


INFO = """<dv version="2.0"><node name="outInfo" path="/outInfo/"><node name="0" path="/outInfo/0/">
<attr key="compression" type="string">NONE</attr><attr key="typeIdentifier" type="string">EVTS</attr>
<node name="info" path="/outInfo/0/info/"><attr key="sizeX" type="int">32</attr><attr key="sizeY" type="int">32</attr>
</node></node></node></dv>"""


def write_aedat4(path, events, packet=100):
    """In flatbuffers: a place of the root, a name, a table of places, and what lies there."""
    info = INFO.encode() + b"\0"
    header = struct.pack("<I4s6xHHHHH", 24, b"IOHE", 10, 20, 4, 12, 8) + struct.pack("<iiIq", 10, 0, 12, -1)
    header += struct.pack("<I", len(info) - 1) + info + bytes(-len(info) % 4)
    parts = [b"#!AER-DAT4.0\r\n", struct.pack("<I", len(header)), header]
    kind = np.dtype([("t", "<i8"), ("x", "<i2"), ("y", "<i2"), ("p", "u1"), ("none", "V3")])
    for begin in range(0, len(events), packet):
        some = events.take(slice(begin, begin + packet))
        rows = np.zeros(len(some), kind)
        for name in "xytp":
            rows[name] = getattr(some, name)
        body = (
            struct.pack("<I4s2xHHH", 16, b"EVTS", 6, 8, 4) + struct.pack("<iIII", 6, 8, 0, len(some)) + rows.tobytes()
        )
        parts.append(struct.pack("<iII", 0, len(body) + 4, len(body)) + body)
    path.write_bytes(b"".join(parts))


def write_text(path, events):
    rows = zip(*(getattr(events, name).tolist() for name in "txyp"))
    path.write_text("32 32\n" + "".join(f"{t / 1e6:.6f} {x} {y} {p}\n" for t, x, y, p in rows))


WRITERS = {
    "a.aedat": lambda path, events: write_aedat3(path, events, packet=37),
    "b.aedat": write_aedat2,
    "c_td.dat": write_dat,
    "d.raw": write_evt2,
    "e.raw": write_evt3,
    "f.bin": write_bin,
    "g.npy": write_npy,
    "h.h5": write_hdf5,
    "i.raw": write_evt21,
    "j.raw": write_evt4,
    "k.txt": write_text,
    "l.aedat4": write_aedat4,
}


@pytest.fixture(scope="session")
def writers():
    return WRITERS


@pytest.fixture(scope="session")
def make_events():
    return random_events


def aedat_packet(kind, body, overflow=0, capacity=None, number=None, size=8):
    count = len(body) // size
    capacity, number = count if capacity is None else capacity, count if number is None else number
    return struct.pack("<HHIIIIII", kind, 1, size, 4, overflow, capacity, number, number) + body
