"""Classification of your own point clouds and meshes, a folder for each class. docs/get-started/custom-clouds.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_clouds --data-root data/mine
"""

# A small transformer on 128 groups of 32 points, of 1,024 points of each cloud. Positions are counted in fifths of its
# radius. Where all files have normals or colors, PackPoints takes them too, and the modality as many `features`.

_base_ = ["_base_/modelnet40_plain.py"]
data_root = "data/mine"
model = dict(
    modalities=dict(points=dict(centers=128, features=0, unit=0.2)),
    backbone=dict(dim=192, depth=6, heads=3, drop_path=0.0, encoding=dict(type="PaPE", m=50)),
    head=dict(classes=None),  # as many as the data has
)

_pack = dict(type="PackPoints", features=())
_train = [
    dict(type="NormalizePoints"),
    dict(type="SamplePoints", count=1024),
    dict(type="ScalePoints", scale=(0.8, 1.25), per_axis=True),
    dict(type="ShiftPoints", most=0.1),
    dict(type="JitterPoints", std=0.005, most=0.02),
    _pack,
]
_eval = [dict(type="SamplePoints", count=1024, method="farthest"), dict(type="NormalizePoints"), _pack]
train_dataloader = dict(batch_size=16, num_workers=2, dataset=dict(type="CloudFolder", transforms=_train))
val_dataloader = dict(batch_size=16, num_workers=2, dataset=dict(type="CloudFolder", transforms=_eval))
test_dataloader = dict(batch_size=16, num_workers=2, dataset=dict(type="CloudFolder", transforms=_eval))
optimizer = dict(lr=5e-4)
train_cfg = dict(max_epochs=50, clip_grad=1.0)

_few = [dict(type="SamplePoints", count=512, method="farthest"), dict(type="NormalizePoints"), _pack]
_few_train = [dict(type="NormalizePoints"), dict(type="SamplePoints", count=512), _pack]
versions = dict(
    small=dict(
        model=dict(modalities=dict(points=dict(centers=64, neighbors=16)), backbone=dict(dim=96, depth=4)),
        train_dataloader=dict(dataset=dict(transforms=_few_train)),
        val_dataloader=dict(dataset=dict(transforms=_few)),
        test_dataloader=dict(dataset=dict(transforms=_few)),
        train_cfg=dict(max_epochs=30),
    )
)

_of_sample = dict(dataset=dict(type="ModelNet40", transforms=_few))
sample = dict(
    train_dataloader=dict(dataset=dict(type="ModelNet40", transforms=_few_train)),
    val_dataloader=_of_sample,
    test_dataloader=_of_sample,
)
