"""Classification of ModelNet40: 12 blocks of width 384 with PaPE on groups of points, 300 epochs.
Cost: not run here; --sample: 2.0 minutes on two CPU cores.
Reaches: not measured; --sample: 86.7 to 89.6 % accuracy (3 seeds).
Command: ndformer train modelnet40_plain_pape --data-root data/modelnet40_normal_resampled
"""

_base_ = ["_base_/modelnet40_plain.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
