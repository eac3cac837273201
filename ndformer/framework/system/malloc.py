"""malloc settings of glibc: memory of freed tensors stays in the process for the next step.

By default glibc returns it to the system and requests it again, page by page, many times a step, which costs 5 % of the
time of training on a CPU.
"""

import ctypes
import platform

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # mallopt's parameter numbers
NEVER = -1
LARGEST = 32 * 2**20  # bytes; larger blocks are mapped separately (by glibc before 2.35 at any setting)


def retain_freed() -> None:
    """Retain freed memory in this process and its forks on Linux with glibc; elsewhere do nothing."""
    if platform.libc_ver()[0] == "glibc":
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(MMAP_THRESHOLD, LARGEST)
        mallopt(TRIM_THRESHOLD, NEVER)
