"""Segmentation of ScanNet: Point Transformer V3 with PaPE, 800 passes, as in the PaPE paper.
Cost: not run here; --sample: 6.5 to 7 minutes on one CPU thread.
Reaches: not measured; --sample: 66.5 % mIoU (1 seed).
Command: ndformer train scannet_pape --data-root data/scannet
"""

_base_ = ["_base_/scannet.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
