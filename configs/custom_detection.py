"""Your own objects: a folder in COCO's form, begun with a model that was trained on COCO. docs/custom-detection.md"""

_base_ = ["_base_/coco_vitt.py"]
data_root = "data/mine"
weights = "work_dirs/coco_vitt_pape/best.pth"
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)), head=dict(classes=None))  # as many as the data has
train_dataloader = dict(batch_size=16, num_workers=4, dataset=dict(holdout=0.1))
val_dataloader = dict(batch_size=16, num_workers=4, dataset=dict(holdout=0.1))
test_dataloader = dict(batch_size=16, num_workers=4)
optimizer = dict(lr=1e-4)
schedule = dict(warmup=0.05)
train_cfg = dict(max_epochs=30)
ema = None
sample = dict(weights=None)
