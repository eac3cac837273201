"""Semantic segmentation of ADE20K, 150 classes: ViT-S/16 with PaPE at 512 px, 130 epochs.
Cost: not run here; --sample: 1.7 minutes on one CPU core.
Reaches: not measured; --sample: 41.9 to 42.9 % mIoU (3 seeds).
Command: ndformer train ade20k_pape --data-root data/ADEChallengeData2016
"""

_base_ = ["_base_/ade20k.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
