"""One thread per test process: pytest-xdist uses the cores, and small operations are no faster on more."""

import torch

from ndformer.framework import heap

torch.set_num_threads(1)
heap.keep_freed()
