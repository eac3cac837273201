"""Classification of UCF101: ViT-B with PaPE on tubelets, 200 epochs, as in the PaPE paper.
Cost: not run here; --sample: 5.3 minutes on two CPU cores.
Reaches: not measured; --sample: 68.1 and 69.5 % accuracy (2 seeds).
Command: ndformer train ucf101_pape --data-root data/ucf101
"""

_base_ = ["_base_/ucf101.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
