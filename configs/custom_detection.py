"""Detection of your own objects in COCO's format, from weights trained on COCO. docs/get-started/custom-detection.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_detection --data-root data/mine
"""

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
_small_train = [
    dict(type="LargeScaleJitter", size=160, scale=(0.5, 1.5)),
    dict(type="FlipBoxes"),
    dict(type="PackBoxes"),
]
_small = [dict(type="Letterbox", size=160), dict(type="PackBoxes")]
versions = dict(
    small=dict(
        weights=None,
        model=dict(
            modalities=dict(image=dict(patch=8)),
            backbone=dict(dim=96, depth=4, heads=4),
            head=dict(neck=dict(width=64), patch=8),
        ),
        train_dataloader=dict(dataset=dict(transforms=_small_train)),
        val_dataloader=dict(dataset=dict(transforms=_small)),
        test_dataloader=dict(dataset=dict(transforms=_small)),
        optimizer=dict(lr=1e-3),
        train_cfg=dict(amp=None),
    )
)

sample = dict(weights=None)
