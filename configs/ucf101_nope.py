_base_ = ["_base_/ucf101.py"]
model = dict(backbone=dict(encoding=dict(type="NoPE")))
