"""The C library's heap (malloc of glibc): memory of freed tensors stays with the process, for the next step's.

By itself glibc gives it back to the system and asks for it again, page by page, many times a step: a twentieth of the
time of training on a CPU.
"""

import ctypes
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's numbers of them
NEVER = -1
LARGEST = 32 * 2**20  # bytes; what is larger has pages of its own, before version 2.35 at any setting


def retain_freed() -> None:
    """For this process and those that it forks, on Linux with glibc; elsewhere, and under another malloc, nothing."""
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, NEVER)
