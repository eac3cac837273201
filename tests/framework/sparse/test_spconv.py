"""Where a CUDA build of spconv is installed: its exact algorithm on a CPU gives our numbers."""

from __future__ import annotations

import pytest
import torch

from ndformer.framework.sparse import Sites, SubMConv3d, spconv
from tools.benchmark_sparse import Native


@pytest.mark.skipif(spconv.build()[0] is None, reason="no CUDA build of spconv here: pip install spconv-cu120")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kernel", [3, 5])
def test_it_gives_our_numbers(kernel: int, threads: int) -> None:
    torch.manual_seed(0)
    index = (torch.rand(2, 7, 8, 9) < 0.3).nonzero()
    index = index[torch.randperm(len(index))]
    sites, x = Sites(index[:, 1:], index[:, 0]), torch.randn(len(index), 8)
    ours = SubMConv3d(8, 16, kernel)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        torch.testing.assert_close(Native(ours)(x, sites), ours(x, sites).detach(), rtol=0, atol=1e-5)
    finally:
        torch.set_num_threads(before)
