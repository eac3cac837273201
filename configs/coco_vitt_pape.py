"""Detection on COCO 2017 for one GPU of 24 GB: ViT-T/16 with PaPE at 320 px, 50 epochs.
Cost: not run here.
Reaches: not measured.
Command: ndformer train coco_vitt_pape --data-root data/coco
"""

_base_ = ["_base_/coco_vitt.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
