_base_ = ["_base_/nuscenes.py"]
model = dict(backbone=dict(encoding=dict(type="Sincos")))
