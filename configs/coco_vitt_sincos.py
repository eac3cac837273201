_base_ = ["_base_/coco_vitt.py"]
model = dict(backbone=dict(encoding=dict(type="Sincos")))
