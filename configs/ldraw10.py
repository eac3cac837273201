"""Ten kinds of building bricks, 573 real meshes to learn from, in minutes on a CPU: docs/results.md."""

_base_ = ["_base_/modelnet40_plain.py"]
data_root = "data/ldraw10_modelnet_layout/ldraw10_normal_resampled"
model = dict(
    modalities=dict(points=dict(centres=64, neighbours=16, unit=0.25)),
    backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0, encoding=dict(type="PaPE", m=50)),
    head=dict(classes=10),
)
_train = [
    dict(type="NormalizePoints"),
    dict(type="SamplePoints", count=512),
    dict(type="RotatePoints", axis="y"),
    dict(type="ScalePoints", scale=(0.8, 1.25), per_axis=True),
    dict(type="ShiftPoints", most=0.1),
    dict(type="PackPoints"),
]
_eval = [
    dict(type="SamplePoints", count=512, method="farthest"),
    dict(type="NormalizePoints"),
    dict(type="PackPoints"),
]
train_dataloader = dict(batch_size=16, num_workers=0, dataset=dict(type="ModelNet", transforms=_train))
val_dataloader = dict(num_workers=0, dataset=dict(type="ModelNet", transforms=_eval))
test_dataloader = dict(num_workers=0, dataset=dict(type="ModelNet", transforms=_eval))
optimizer = dict(lr=7e-4)
schedule = dict(warmup=0.15)
train_cfg = dict(max_epochs=30, clip_grad=1.0)
