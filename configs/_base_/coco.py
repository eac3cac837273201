"""COCO 2017 as in the PaPE paper: ViT-B/16 at 640 px from random weights, YOLOv10's head, 150 epochs.

That paper squeezes images into a square and draws its jitter of scale as one of eleven operations; here the jitter
comes first, with crop and pad, and shapes stay. Its code neither normalizes pixels, as is done here, nor leaves crowds
out of training. 5 % of train validates; the official validation images are the test
set. The batch of 64 is for one device: with less memory, a smaller batch_size and train_cfg.accumulate make the same
step.
"""

_base_ = ["_transformer.py"]
data_root = "data/coco"
model = dict(
    modalities=dict(image=dict(type="ImagePatches", patch=16, class_token=False)),
    backbone=dict(position_dims=2),
    head=dict(
        type="Detector",
        classes=80,
        neck=dict(type="SimpleFeaturePyramid", reduced=True),
        patch=16,
        norm_eps=1e-5,
        norm_momentum=0.1,
    ),
)

_train = [
    dict(type="LargeScaleJitter", size=640),
    dict(type="FlipBoxes"),
    dict(type="RandAugmentBoxes"),
    dict(type="PackBoxes"),
]
_eval = [dict(type="Letterbox", size=640), dict(type="PackBoxes")]
train_dataloader = dict(batch_size=64, num_workers=16, dataset=dict(type="Coco", transforms=_train, holdout=0.05))
val_dataloader = dict(batch_size=64, num_workers=16, dataset=dict(type="Coco", transforms=_eval, holdout=0.05))
test_dataloader = dict(batch_size=64, num_workers=16, dataset=dict(type="Coco", transforms=_eval))

optimizer = dict(type="AdamW", lr=6e-4, betas=(0.9, 0.999), weight_decay=0.05)  # decay on all parameters
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=150, amp="fp16")
metrics = [dict(type="CocoMetric")]

_small_train = [
    dict(type="LargeScaleJitter", size=96, scale=(0.8, 1.25)),
    dict(type="FlipBoxes"),
    dict(type="PackBoxes"),
]
_small_eval = [dict(type="Letterbox", size=96), dict(type="PackBoxes")]
sample_data = "coco"
sample = dict(
    data_root="data/samples/coco",
    model=dict(
        modalities=dict(image=dict(patch=8)),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
        head=dict(classes=6, neck=dict(width=64), patch=8),
    ),
    train_dataloader=dict(batch_size=16, num_workers=2, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(batch_size=32, num_workers=2, dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(batch_size=32, num_workers=2, dataset=dict(transforms=_small_eval)),
    optimizer=dict(lr=1e-3),
    schedule=dict(warmup=0.05),
    train_cfg=dict(max_epochs=8, amp=None),
)
