"""One thread per test process: pytest-xdist uses the cores, and small operations are no faster on more."""

import torch

torch.set_num_threads(1)
