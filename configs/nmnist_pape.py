"""Classification of N-MNIST: 6 blocks of width 128 with PaPE on spiking patches, 30 epochs.
Cost: not run here.
Reaches: not measured; nmnist_small, which is smaller, is.
Command: ndformer train nmnist_pape --data-root data/nmnist
"""

_base_ = ["_base_/nmnist.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
