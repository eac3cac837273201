"""Untrusted pickles: plain values are unchanged, anything else is an error, and nothing crashes."""

import os
import pickle
import pickletools
import time

import numpy as np
import pytest

from ndformer.framework import foreign
from ndformer.framework.errors import DataError
from tests.soak.fuzz import mutated

BATCH = {
    "data": np.arange(24, dtype=np.uint8).reshape(4, 6),
    "wide": np.arange(6, dtype=">f4").reshape(2, 3).T,
    "same": np.arange(3.0),
    "labels": [0, 1, -5, 2**70],
    "names": ["a", "\xe9", "\u65e5"],
    b"bytes": b"\x00\xff",
    "rest": (None, True, False, 1.5, (), [], {}, (1, 2), (1, 2, 3, 4)),
}


def read(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    return foreign.plain_pickle(tmp_path / "x")


@pytest.mark.parametrize("protocol", range(2, 6))
def test_plain_values_come_out_as_they_went_in(tmp_path, protocol):
    found = read(tmp_path, pickle.dumps(BATCH, protocol))
    assert found.keys() == BATCH.keys()
    for name, value in BATCH.items():
        if isinstance(value, np.ndarray):
            assert found[name].dtype == value.dtype
            np.testing.assert_array_equal(found[name], value)
        else:
            assert found[name] == value


def raw_array(*state):
    head = b"\x80\x02cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    return head + b"(" + b"".join(state) + b"tb."


OBJECTS = b"cnumpy\ndtype\nU\x02O8K\x00K\x01\x87R"
BYTES = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
FLAGS = b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
FIELDS = b"(K\x03U\x01|NU\x01aNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb"
POINTERS = b"C\x08AAAAAAAA"
HOSTILE = {
    "pointers as objects": raw_array(b"K\x01", b"K\x01\x85", OBJECTS + FLAGS, b"\x89", POINTERS),
    "objects of a buffer": b"\x80\x02cnumpy\nndarray\n)U\x01O" + POINTERS + b"\x87R.",
    "a table": raw_array(b"K\x01", b"K\x01\x85", BYTES + FIELDS, b"\x89", POINTERS),
    "more than its bytes": raw_array(b"K\x01", b"J\xff\xff\xff\x7f\x85", BYTES, b"\x89", POINTERS),
    "a negative side": raw_array(b"K\x01", b"J\xff\xff\xff\xff\x85", BYTES, b"\x89", POINTERS),
    "itself": b"\x80\x02]q\x00h\x00a.",
    "one list in two places": b"\x80\x02]q\x00K\x01a]q\x01(h\x00h\x00e.",
    "a copy of the top": b"\x80\x02]2\x86.",
    "numbers as keys": b"\x80\x02}K\x01K\x02s.",
    "attributes of a function": b"\x80\x02cnumpy\ndtype\n}U\x01aK\x01sb.",
    "os.system": b"cos\nsystem\n(S'touch pwned'\ntR.",
    "os.system by its stack": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x01x\x85R.",
    "an instance": b"\x80\x02cnumpy\ndtype\n)\x81.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent thing": b"\x80\x02U\x01xQ.",
    "a long claim": b"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a long claim of an array": b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x7f.",
    "a long number": b"\x80\x02L" + b"9" * 100_000 + b"L\n.",
    "nothing": b"\x80\x02.",
    "no end": b"\x80\x02]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_not_plain_is_an_error(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ValueError, TypeError, KeyError, IndexError)):
        read(tmp_path, HOSTILE[name])
    assert os.listdir(tmp_path) == ["x"]


@pytest.mark.slow
def test_small_pickles_stay_small_and_are_soon_read(tmp_path, monkeypatch):
    start = time.monotonic()
    deep = b"\x80\x02" + b"(" * 10**5 + b"l" * 10**5 + b"."
    assert isinstance(read(tmp_path, deep), list)
    with pytest.raises(ValueError, match="at most 1048576 opcodes"):
        read(tmp_path, b"\x80\x02" + b"]" * 2 * 10**6)
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", str(2**20))
    encoded = b"h\x00h\x01h\x02\x86R"
    bomb = b"\x80\x02c_codecs\nencode\nq\x00X" + (10**5).to_bytes(4, "little") + b"a" * 10**5 + b"q\x01U\x06latin1q\x02"
    with pytest.raises(DataError, match="one file may take 1"):
        read(tmp_path, bomb + encoded * 1000 + b".")
    assert time.monotonic() - start < 15


@pytest.mark.filterwarnings("ignore:invalid escape")
def test_a_thousand_damaged_ones_are_values_or_errors(tmp_path):
    """A crash would end this process. tests/soak/foreign.py tries more."""
    tally = dict(read=0, said=0)
    for n in range(1000):
        rng = np.random.default_rng(n)
        base = pickle.dumps(BATCH, n % 4 + 2) if n % 5 else list(HOSTILE.values())[n // 5 % len(HOSTILE)][:5000]
        try:
            repr(read(tmp_path, mutated(base, rng)))
            tally["read"] += 1
        except (ValueError, TypeError, KeyError, IndexError, AttributeError):
            tally["said"] += 1
    assert min(tally.values()) > 50, tally


def test_every_opcode_is_a_step_or_an_error(tmp_path):
    for opcode in pickletools.opcodes:
        for before in (b"", b"]", b"}", b"(", b"K\x01K\x02", b"cnumpy\ndtype\n)"):
            try:
                read(tmp_path, before + opcode.code.encode("latin-1") + b"\x01\x00\x00\x00\n.")
            except (ValueError, TypeError, KeyError, IndexError):
                continue
