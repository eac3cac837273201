"""Freed memory stays with the process."""

import ctypes
import platform
import subprocess
import sys

import pytest

FREED = """
import ctypes, sys
from ndformer.framework import heap

class Info(ctypes.Structure):  # of mallinfo2
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    _fields_ = [(name, ctypes.c_size_t) for name in names]

c = ctypes.CDLL(None)
c.mallinfo2.restype = Info
c.malloc.restype = ctypes.c_void_p
c.malloc.argtypes = [ctypes.c_size_t]
c.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "kept":
    heap.keep_freed()
before = c.mallinfo2().arena
c.free(c.malloc(int(sys.argv[2]) * 2**20))
print(c.mallinfo2().arena - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="mallopt is of glibc; elsewhere keep_freed does nothing")
@pytest.mark.parametrize("megabytes", [24, 500])
def test_what_is_freed_is_there_for_the_next_step(megabytes: int) -> None:
    version = ctypes.CDLL(None).gnu_get_libc_version
    version.restype = ctypes.c_char_p
    if megabytes > 32 and tuple(map(int, version().split(b"."))) < (2, 35):
        pytest.skip("before 2.35 glibc gave so much pages of its own at any setting")
    held = {}
    for how in ("as it is", "kept"):
        program = [sys.executable, "-c", FREED, how, str(megabytes)]
        held[how] = int(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    assert held["as it is"] < 2**20  # had pages of its own, which are the system's again
    assert held["kept"] > (megabytes - 8) * 2**20  # the heap had some room before
