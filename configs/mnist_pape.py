"""Classification of MNIST: 6 blocks of width 128 with PaPE, 30 epochs.
Cost: not run here.
Reaches: not measured; mnist_small, which is smaller, is.
Command: ndformer train mnist_pape --data-root data/mnist
"""

_base_ = ["_base_/mnist.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
