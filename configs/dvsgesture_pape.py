"""Classification of DVS128 Gesture: ViT-B with PaPE on spiking patches, 300 epochs, as in the PaPE paper.
Cost: not run here; --sample: 12 minutes on one CPU thread.
Reaches: not measured; --sample: 88.1 ± 3.7 % accuracy (5 seeds).
Command: ndformer train dvsgesture_pape --data-root data/dvsgesture
"""

_base_ = ["_base_/dvsgesture.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
# gestures fill a second and the whole sensor: with the paper's radius, each token begins by seeing itself
sample = dict(model=dict(backbone=dict(encoding=dict(init_radius=[1, 8.4], position_scale=[1.3, 2.4, 2.2]))))
