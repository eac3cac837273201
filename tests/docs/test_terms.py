"""Terms that people search for are in the first line of a docstring of their file."""

import ast

import pytest

from tests.docs.made import ROOT

TERMS = {
    "NMS": "framework/heads/nms.py",
    "test-time augmentation (TTA)": "modalities/pointcloud/voting.py",
    "EMA": "framework/engine/training/ema.py",
    "flash attention": "framework/kernels/sdpa.py",
    "farthest point sampling": "modalities/pointcloud/sampling.py",
    "mosaic": "modalities/image/transforms/box_augment.py",
    "MixUp and CutMix": "modalities/image/transforms/mix.py",
    "layer decay": "framework/engine/training/optim.py",
    "stochastic depth": "framework/transformer.py",
    "AMP": "framework/engine/training/optim_wrapper.py",
    "distribution focal loss": "framework/losses/boxes.py",
    "Lovasz": "framework/losses/labels.py",
    "IoU": "framework/losses/boxes.py",
    "CIoU": "framework/losses/boxes.py",
    "mIoU": "framework/evaluation/mean_iou.py",
    "mAP": "framework/evaluation/coco/average.py",
    "task-aligned assignment": "framework/losses/assignment.py",
    "warm-up and cosine": "framework/engine/training/schedules.py",
    "early stopping": "framework/engine/training/history.py",
    "preemption": "framework/engine/training/preemption.py",
    "DDP": "framework/system/processes.py",
    "sparse submanifold convolution": "framework/sparse/conv.py",
    "space-filling curves": "framework/backbones/ptv3/curves.py",
    "Hilbert": "framework/backbones/ptv3/curves.py",
    "Z-order": "framework/backbones/ptv3/curves.py",
    "voxel grid": "modalities/events/transforms/events.py",
    "integrate-and-fire": "modalities/events/spikes/spiking.py",
    "EVT2": "modalities/events/formats/evt_dat.py",
    "EVT3": "modalities/events/formats/evt_dat.py",
    "AEDAT": "modalities/events/formats/aedat.py",
    "k-fold": "modalities/events/datasets/nmnist.py",
    "confidence interval": "lab/interval.py",
    "grid search": "lab/grid.py",
    "Friedman test": "lab/friedman.py",
    "critical difference diagram": "lab/figures.py",
    "top-k": "framework/evaluation/accuracy.py",
    "confusion matrix": "framework/evaluation/accuracy.py",
    "feature pyramid": "framework/necks/pyramid.py",
    "connected component": "modalities/arc/objects.py",
    "exact match": "framework/evaluation/mean_iou.py",
    "large scale jitter": "modalities/image/transforms/boxes.py",
}


@pytest.mark.parametrize("term, file", TERMS.items())
def test_a_search_for_a_term_lands_on_its_file(term, file):
    tree = ast.parse((ROOT / "ndformer" / file).read_text())
    said = [
        ast.get_docstring(node) or ""
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    ]
    lines = [text.partition("\n")[0] for text in said[1:]] + [said[0]]  # a module's docstring may list what it has
    assert any(term.lower() in line.lower() for line in lines), f"{file} names '{term}' in no first line of a docstring"
