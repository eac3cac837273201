"""The memory of each process under DDP and FSDP: measured, beside what tools/memory.py calculates."""

import platform
import re
import subprocess
import sys

import pytest

from tests.programs import ROOT


@pytest.mark.slow
@pytest.mark.skipif(platform.system() != "Linux", reason="reads the peak of the resident memory in /proc")
def test_measured_memory_is_within_15_percent_of_the_calculated_one() -> None:
    most = {}
    for parallel in ("ddp", "fsdp"):  # in a new process, whose memory does not hold what other tests have freed
        size = ["--dim", "256", "--depth", "12"]  # 9.5 M parameters
        command = [sys.executable, "-m", "tests.soak.memory", *size, "--parallel", parallel]
        printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        (found,) = re.findall(r"calculated ([\d.]+), measured ([\d.]+)", printed)
        total, most[parallel] = map(float, found)
        assert most[parallel] == pytest.approx(total, rel=0.15)
    assert most["fsdp"] < 0.55 * most["ddp"]
