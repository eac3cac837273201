"""ModelNet40 with the PaPE paper's hyperparameters (appendix, Table 8) and Point Transformer V3's augmentations, on a
plain transformer: tokens are groups of points around 512 farthest points. The paper trains Point Transformer V3 itself.

8192 farthest points of each cloud, as in that recipe, are found once and kept beside the data. Positions are counted
in tenths of an object's radius, about the distance between centers, for which the encodings' defaults are made.
"""

_base_ = ["_transformer.py"]
data_root = "data/modelnet40_normal_resampled"
model = dict(
    modalities=dict(points=dict(type="PointPatches", centers=512, neighbors=32, unit=0.1)),
    backbone=dict(dim=384, heads=6, position_dims=3, drop_path=[0.3 * i / 11 for i in range(12)]),
    head=dict(type="Classifier", classes=40, pool="mean"),
)

_train = [
    dict(type="SamplePoints", count=8192, method="farthest"),
    dict(type="NormalizePoints"),
    dict(type="ScalePoints", scale=(0.7, 1.5), per_axis=True),
    dict(type="ShiftPoints", most=0.2),
    dict(type="GridSample", size=0.01),
    dict(type="ShufflePoints"),
    dict(type="PackPoints"),
]
_eval = [
    dict(type="SamplePoints", count=8192, method="farthest"),
    dict(type="NormalizePoints"),
    dict(type="GridSample", size=0.01),
    dict(type="PackPoints"),
]
train_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="ModelNet40", transforms=_train))
val_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="ModelNet40", transforms=_eval))
test_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="ModelNet40", transforms=_eval))

optimizer = dict(type="AdamW", lr=1e-3, betas=(0.9, 0.999), weight_decay=0.01)
schedule = dict(type="OneCycle", warmup=5 / 300, div=10, final_div=1000)
train_cfg = dict(max_epochs=300)
metrics = [dict(type="Accuracy")]

_small_train = [
    dict(type="NormalizePoints"),
    dict(type="SamplePoints", count=512),
    dict(type="RotatePoints", axis="y"),
    dict(type="ScalePoints", scale=(0.8, 1.25), per_axis=True),
    dict(type="ShiftPoints", most=0.1),
    dict(type="PackPoints"),
]
_small = [
    dict(type="SamplePoints", count=512, method="farthest"),
    dict(type="NormalizePoints"),
    dict(type="PackPoints"),
]
sample_data = "modelnet40"
sample = dict(
    data_root="data/samples/modelnet40",
    model=dict(
        modalities=dict(points=dict(centers=64, neighbors=16, unit=0.25)),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
        head=dict(classes=12),
    ),
    train_dataloader=dict(batch_size=16, num_workers=0, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(num_workers=0, dataset=dict(transforms=_small)),
    test_dataloader=dict(num_workers=0, dataset=dict(transforms=_small)),
    optimizer=dict(lr=7e-4),
    schedule=dict(warmup=0.15),
    train_cfg=dict(max_epochs=20, clip_grad=1.0),
)
