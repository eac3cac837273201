"""Classification of CIFAR-10: ViT-S with patches of 4 and PaPE, 400 epochs, as in the SaPE2 paper.
Cost: not run here; --sample: 3.6 minutes on two CPU cores.
Reaches: not measured; --sample: 87.5 to 89.9 % accuracy (3 seeds).
Command: ndformer train cifar10_pape --data-root data/cifar10
"""

_base_ = ["_base_/cifar10.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
