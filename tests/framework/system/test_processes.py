"""The process group that a launched program joins."""

import pytest
import torch

from ndformer.framework.system import processes


@pytest.mark.parametrize("device, backend", [("cpu", "gloo"), ("cuda", "cpu:gloo,cuda:nccl")])
def test_gpus_have_a_backend_for_shards_in_cpu_memory_too(device: str, backend: str) -> None:
    assert processes.backend_for(torch.device(device)) == backend
