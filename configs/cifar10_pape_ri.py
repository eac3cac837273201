_base_ = ["_base_/cifar10.py"]
model = dict(backbone=dict(encoding=dict(type="PaPERI")))
