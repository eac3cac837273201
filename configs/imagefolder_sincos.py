_base_ = ["_base_/imagefolder.py"]
model = dict(backbone=dict(encoding=dict(type="Sincos")))
