"""On a GPU every kind of config trains an epoch of its sample, in 16 bits, compiled and sharded (nccl, one process)."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1"]
BF16, FP16, COMPILED = "train_cfg.amp=bf16", "train_cfg.amp=fp16", "train_cfg.compile=True"
FSDP, OFFLOADED = "train_cfg.parallel=fsdp", "train_cfg.parallel=dict(type='fsdp',offload=True)"
RUNS = {
    "mnist_small": [BF16, COMPILED],
    "coco_pape": [BF16],
    "coco_vitt_pape": [FP16],
    "ade20k_pape": [BF16],
    "custom_segmentation_native": [BF16],
    "imagefolder_native": [FP16],
    "modelnet40_pape": [BF16],
    "scannet_pape": [FP16],
    "dvsgesture_pape": [BF16],
    "gen1_pape": [FP16],
    "ucf101_pape": [BF16],
    "nuscenes_pape": [BF16],
    "nuscenes_unitr": [],
    "arc_task": [],
    "qm9_small": [COMPILED],
    "joint_sample": [BF16],
    "paired_sample": [],
}
SHARDED = [
    ("mnist_small", []),
    ("mnist_small", [FSDP, FP16, "train_cfg.recompute=blocks"]),
    ("mnist_small", [FSDP, COMPILED]),
    ("mnist_small", [OFFLOADED, BF16]),
    ("modelnet40_pape", [FSDP, BF16]),
    ("coco_pape", [FSDP, FP16]),
]


def train(config: str, options: list[str], folder: Path, launcher: list[str]) -> None:
    command = [sys.executable, *launcher, str(ROOT / "tools" / "train.py"), config, "--sample", "--cfg-options"]
    command += ["train_cfg.max_epochs=1", "train_dataloader.dataset.per_class=16", *options]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stdout[-2000:] + run.stderr[-4000:]


@pytest.mark.parametrize("config", RUNS)
def test_a_config_trains(config: str, tmp_path: Path) -> None:
    train(config, RUNS[config], tmp_path, [])


@pytest.mark.parametrize("config, options", SHARDED)
def test_several_processes_train(config: str, options: list[str], tmp_path: Path) -> None:
    train(config, options, tmp_path, TORCHRUN)
