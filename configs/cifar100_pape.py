_base_ = ["_base_/cifar100.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
