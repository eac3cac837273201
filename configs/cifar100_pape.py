"""Classification of CIFAR-100: ViT-S with patches of 4 and PaPE, 400 epochs, as in the SaPE2 paper.
Cost: not run here.
Reaches: not measured.
Command: ndformer train cifar100_pape --data-root data/cifar100
"""

_base_ = ["_base_/cifar100.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
