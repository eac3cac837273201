"""The memory of each process under DDP and FSDP: measured, beside what tools/memory.py calculates."""

import platform

import pytest

from tests.soak.memory import calculated, measured, sized
from tests.spawned import spawned


@pytest.mark.slow
@pytest.mark.skipif(platform.system() != "Linux", reason="reads the peak of the resident memory in /proc")
def test_measured_memory_is_within_15_percent_of_the_calculated_one() -> None:
    cfg, most = sized(256, 12), {}  # 9.5 M parameters
    for parallel in ("ddp", "fsdp"):
        total = sum(spawned(1, calculated, cfg, 2, parallel)[0].values())
        most[parallel] = max(process["training"] for process in spawned(2, measured, cfg, parallel))
        assert most[parallel] == pytest.approx(total, rel=0.15)
    assert most["fsdp"] < 0.55 * most["ddp"]
