"""Detection on COCO 2017: ViT-B/16 with PaPE at 640 px, 150 epochs, as in the PaPE paper.
Cost: not run here; --sample: 7.1 minutes on one CPU core.
Reaches: not measured; --sample: 77.7 to 80.4 % mAP50 (3 seeds).
Command: ndformer train coco_pape --data-root data/coco
"""

_base_ = ["_base_/coco.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
