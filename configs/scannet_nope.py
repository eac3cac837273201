_base_ = ["_base_/scannet.py"]
model = dict(backbone=dict(encoding=dict(type="NoPE")))
