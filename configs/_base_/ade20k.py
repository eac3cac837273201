"""ADE20K, 150 classes: ViT-S/16 at 512 px under ViTDet's pyramid and a light head, 130 epochs. Ours, not a paper's.

The official validation images are the test set, 5 % of train validates. For a folder of your own, set
`model.head.classes`, and `zero_is_nothing=False` in the three datasets where masks count classes from 0.
"""

_base_ = ["_transformer.py"]
data_root = "data/ADEChallengeData2016"
model = dict(
    modalities=dict(image=dict(type="ImagePatches", patch=16, class_token=False)),
    backbone=dict(dim=384, heads=6, position_dims=2),
    head=dict(
        type="Segmenter",
        classes=150,
        neck=dict(type="SimpleFeaturePyramid", scales=(4, 2, 1, 0.5)),
        patch=16,
    ),
)

_train = [
    dict(type="LargeScaleJitter", size=512, scale=(0.5, 2.0)),
    dict(type="FlipBoxes"),
    dict(type="RandAugmentBoxes"),
    dict(type="PackMask"),
]
_eval = [dict(type="Letterbox", size=512), dict(type="PackMask")]
_masks = dict(type="MaskFolder", zero_is_nothing=True)
train_dataloader = dict(batch_size=16, num_workers=8, dataset=_masks | dict(transforms=_train, holdout=0.05))
val_dataloader = dict(batch_size=16, num_workers=8, dataset=_masks | dict(transforms=_eval, holdout=0.05))
test_dataloader = dict(batch_size=16, num_workers=8, dataset=_masks | dict(transforms=_eval))

optimizer = dict(type="AdamW", lr=5e-4, weight_decay=0.05)
param_groups = dict(no_decay=True)
schedule = dict(type="WarmupCosine", warmup=0.02)
train_cfg = dict(max_epochs=130, amp="bf16", clip_grad=1.0)
metrics = [dict(type="MeanIoU")]

_small_train = [
    dict(type="LargeScaleJitter", size=96, scale=(0.8, 1.25)),
    dict(type="FlipBoxes"),
    dict(type="PackMask"),
]
_small_eval = [dict(type="Letterbox", size=96), dict(type="PackMask")]
sample_data = "ade20k"
sample = dict(
    data_root="data/samples/ade20k",
    model=dict(
        modalities=dict(image=dict(patch=8)),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
        head=dict(classes=6, neck=dict(width=64, scales=(2, 1, 0.5), reduced=True), patch=8),
    ),
    train_dataloader=dict(num_workers=2, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(batch_size=32, num_workers=2, dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(batch_size=32, num_workers=2, dataset=dict(transforms=_small_eval)),
    optimizer=dict(lr=1e-3),
    train_cfg=dict(max_epochs=6, amp=None),
)
