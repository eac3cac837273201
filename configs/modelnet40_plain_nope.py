_base_ = ["_base_/modelnet40_plain.py"]
model = dict(backbone=dict(encoding=dict(type="NoPE")))
