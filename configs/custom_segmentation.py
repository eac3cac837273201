"""Segmentation of your own images, a PNG of classes beside each. docs/get-started/custom-segmentation.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_segmentation --data-root data/mine
"""

_base_ = ["_base_/ade20k.py"]
data_root = "data/mine"
model = dict(
    backbone=dict(dim=192, heads=3, drop_path=0.0, encoding=dict(type="PaPE", m=50)),
    head=dict(classes=None),  # as many as the data has
)
train_dataloader = dict(num_workers=4, dataset=dict(zero_is_nothing=False, holdout=0.1))
val_dataloader = dict(num_workers=4, dataset=dict(zero_is_nothing=False, holdout=0.1))
test_dataloader = dict(num_workers=4, dataset=dict(zero_is_nothing=False))
train_cfg = dict(max_epochs=100)
_small_train = [
    dict(type="LargeScaleJitter", size=96, scale=(0.8, 1.25)),
    dict(type="FlipBoxes"),
    dict(type="PackMask"),
]
_small = [dict(type="Letterbox", size=96), dict(type="PackMask")]
versions = dict(
    small=dict(
        model=dict(
            modalities=dict(image=dict(patch=8)),
            backbone=dict(dim=96, depth=4, heads=4),
            head=dict(neck=dict(width=64, scales=(2, 1, 0.5), reduced=True), patch=8),
        ),
        train_dataloader=dict(dataset=dict(transforms=_small_train)),
        val_dataloader=dict(dataset=dict(transforms=_small)),
        test_dataloader=dict(dataset=dict(transforms=_small)),
        optimizer=dict(lr=1e-3),
        train_cfg=dict(max_epochs=30, amp=None),
    )
)

sample = dict(
    train_dataloader=dict(dataset=dict(zero_is_nothing=True)),
    val_dataloader=dict(dataset=dict(zero_is_nothing=True)),
    test_dataloader=dict(dataset=dict(zero_is_nothing=True)),
)
