_base_ = ["_base_/ade20k.py"]
model = dict(backbone=dict(encoding=dict(type="Sincos")))
