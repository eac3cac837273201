_base_ = ["_base_/modelnet40.py"]
model = dict(backbone=dict(encoding=dict(type="LookHere")))
