_base_ = ["_base_/nmnist.py"]
model = dict(backbone=dict(encoding=dict(type="LookHere")))
