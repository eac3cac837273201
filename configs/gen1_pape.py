"""Detection on GEN1: ViT-B with PaPE on spiking patches, 150 epochs, as in the PaPE paper.
Cost: not run here; --sample: 4.7 to 4.9 minutes on one CPU core.
Reaches: not measured; --sample: 35.6 to 36.3 % mAP50 (3 seeds).
Command: ndformer train gen1_pape --data-root data/gen1
"""

_base_ = ["_base_/gen1.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
