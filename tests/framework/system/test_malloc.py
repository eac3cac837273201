"""Freed memory stays with the process."""

import platform
import subprocess
import sys

import pytest

FREED = """
import ctypes, sys
from ndformer.framework.system import malloc

class Info(ctypes.Structure):  # of mallinfo2
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
    _fields_ = [(name, ctypes.c_size_t) for name in names]

c = ctypes.CDLL(None)
c.mallinfo2.restype = Info
c.malloc.restype = ctypes.c_void_p
c.malloc.argtypes = [ctypes.c_size_t]
c.free.argtypes = [ctypes.c_void_p]
if sys.argv[1] == "kept":
    malloc.retain_freed()
before = c.mallinfo2().arena
c.free(c.malloc(24 * 2**20))
print(c.mallinfo2().arena - before)
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="mallopt is of glibc; elsewhere retain_freed does nothing"
)
def test_what_is_freed_is_there_for_the_next_step() -> None:
    held = {}
    for how in ("as it is", "kept"):
        said = subprocess.run([sys.executable, "-c", FREED, how], capture_output=True, text=True, check=True)
        held[how] = int(said.stdout)
    assert held["as it is"] < 2**20  # had pages of its own, which are the system's again
    assert held["kept"] > 16 * 2**20  # of 24: the heap had some room before
