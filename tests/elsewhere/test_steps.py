"""Whole steps of training and prediction on a device that is not here: nothing is mixed, and each wait has its reason.

The allow-list is the table of docs/concepts/gpu-synchronization.md.
"""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch.utils.backend_registration as registration

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(
    not hasattr(registration, "_setup_privateuseone_for_python_backend"), reason="needs a newer torch"
)
KINDS = {  # `make elsewhere` has all, the suite the first of each
    "grids": ["mnist_small", "arc_task", "ucf101_pape", "imagenet1k_pape"],
    "recordings": ["nmnist_pape", "dvsgesture_pape"],
    "points": ["scannet_pape", "modelnet40_pape", "ldraw10"],
    "boxes and pixels": ["coco_vitt_pape", "gen1_pape", "ade20k_pape"],
    "several": ["paired_sample", "joint_sample"],
    "a car's sensors": ["nuscenes_pape"],
}
if os.environ.get("ELSEWHERE") != "all":
    KINDS = {kind: names[:1] for kind, names in KINDS.items() if kind != "a car's sensors"}
MOST = {"a car's sensors": 110}  # waits in a step, 12 of the others; 72 are of calibrations that are new
# a CUDA graph could hold their steps
GRAPHS = {"mnist_small", "ucf101_pape", "imagenet1k_pape", "ade20k_pape", "ldraw10"}


def allowed() -> dict[tuple[str, str], int]:
    """(file, function) -> how often in a step."""
    page = (ROOT / "docs" / "concepts" / "gpu-synchronization.md").read_text()
    table = page.partition("<!-- waits -->")[2].partition("<!-- end of waits -->")[0]
    rows = re.findall(r"^\| `([\w./]+)` \| `(\w+)` \| \w+ \| (\d+) \| .+ \|$", table, re.MULTILINE)
    return {(file, function): int(count) for file, function, count in rows}


def seen(program: str, *names: str) -> dict[str, dict[str, Any]]:
    done = subprocess.run([sys.executable, "-m", program, *names], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout[done.stdout.index("{") :])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_mixed_and_what_is_waited_for_is_on_the_list(kind: str) -> None:
    known = allowed()
    for name, steps in seen("tests.elsewhere.steps", *KINDS[kind]).items():
        for step in ("train", "test"):
            found = steps[step]
            assert not found["mixes"], (name, step)
            for what in ("waits", "uploads"):
                counts = Counter[tuple[str, str]]()
                for line, count in found[what].items():
                    place, function, *_ = line.split(" ")
                    counts[place.split(":")[0], function] += count
                over = {key: count for key, count in counts.items() if count > known.get(key, 0)}
                assert not over, (name, step, what, found[what])
        assert sum(steps["train"]["waits"].values()) <= MOST.get(kind, 12), name
        assert trainer_waits(steps["train"]["waits"]) == 1, name
        file, function, *why = (steps["meta"] or "through - ").split(" ")
        assert file == "through" or (file, function) in known, (name, "on meta", file, function, why)
        if name in GRAPHS:
            assert file == "through", name
            assert steps["static"], "two steps are not of the same operations and shapes"
            sent = {line.split(" ")[1] for line in steps["train"]["sent"]}
            assert sent <= {"to_device", "targets"}, "a step sends more than inputs and targets"


def trainer_waits(waits: dict[str, int]) -> int:
    return sum(count for line, count in waits.items() if line.startswith("ndformer/framework/engine/"))


@pytest.mark.slow
def test_no_encoding_waits_mixes_or_sends_anything() -> None:
    found = seen("tests.elsewhere.encodings")
    assert len(found) > 30
    for name, counts in found.items():
        assert not any(counts.values()), (name, counts)


@pytest.mark.slow
def test_planted_faults_are_caught_by_name_and_line() -> None:
    found = seen("tests.elsewhere.planted")["planted"]["train"]
    lines = (ROOT / "tests" / "elsewhere" / "planted.py").read_text().splitlines()
    number = lambda text: next(i for i, line in enumerate(lines, 1) if text in line)
    assert f"tests/elsewhere/planted.py:{number('where? on the host')} loss mul" in found["mixes"]
    assert list(found["waits"]) == [f"tests/elsewhere/planted.py:{number('.item()')} loss _local_scalar_dense"]
