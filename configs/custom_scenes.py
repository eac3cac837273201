"""Segmentation of your own point-cloud scenes, a label for each point. docs/get-started/custom-clouds.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_scenes --data-root data/mine
"""

# Files: .ply, .las, .pcd, text, or folders of arrays. A small Point Transformer V3 on voxels of 5 cm. Features are
# colors and normals; missing normals are estimated.

_base_ = ["_base_/scannet.py"]
data_root = "data/mine"
model = dict(
    modalities=dict(points=dict(unit=0.1)),
    backbone=dict(
        grid_size=0.5,  # of the unit: 5 cm
        encoding=dict(type="PaPE", m=50),
        enc_depths=(1, 1, 2, 1),
        enc_channels=(32, 48, 96, 128),
        enc_heads=(2, 3, 6, 8),
        dec_depths=(1, 1, 1),
        dec_channels=(32, 48, 96),
        dec_heads=(2, 3, 6),
        window=256,
        drop_path=0.0,
        cpe="xcpe",
    ),
    head=dict(classes=None),  # as many as the data has
    mix=None,
)

_begin = [dict(type="CenterPoints"), dict(type="EstimateNormals", size=0.1)]
_end = [
    dict(type="CenterPoints", up=False, step=0.05),
    dict(type="UnitColors"),
    dict(type="PackPoints", features=("colors", "normals"), missing=dict(colors=0.5)),
]
_train = [
    *_begin,
    dict(type="RotatePoints", axis="z", degrees=180),
    dict(type="ScalePoints", scale=(0.9, 1.1)),
    dict(type="FlipPoints", axes="xy", p=0.5),
    dict(type="ShiftColors", most=0.05),
    dict(type="JitterColors", std=0.05),
    dict(type="GridSample", size=0.05),
    dict(type="CropSphere", most=40_000),
    *_end,
]
_eval = [*_begin, dict(type="GridSample", size=0.05, whole=True), *_end]
_scenes = dict(type="Scenes", labels="label", classes="classes.txt", test_on="test")
train_dataloader = dict(batch_size=2, num_workers=2, loops=4, dataset=_scenes | dict(split="train", transforms=_train))
val_dataloader = dict(num_workers=2, dataset=_scenes | dict(split="val", transforms=_eval))
test_dataloader = dict(num_workers=2, dataset=_scenes | dict(split="test", transforms=_eval))
optimizer = dict(lr=4e-3)
train_cfg = dict(max_epochs=50, amp=None, clip_grad=1.0)

versions = dict(
    _delete_=True,
    small=dict(
        model=dict(
            backbone=dict(
                enc_depths=(1, 1, 1, 1),
                enc_channels=(16, 32, 48, 64),
                enc_heads=(1, 2, 3, 4),
                dec_channels=(16, 32, 48),
                dec_heads=(1, 2, 3),
                window=64,
            ),
        ),
        train_cfg=dict(max_epochs=30),
    ),
)

sample = dict(
    model=dict(head=dict(classes=20)),
    train_dataloader=dict(dataset=dict(type="ScanNet", labels="segment20.npy", classes=None, test_on="val")),
    val_dataloader=dict(dataset=dict(type="ScanNet", labels="segment20.npy", classes=None, test_on="val")),
    test_dataloader=dict(dataset=dict(type="ScanNet", labels="segment20.npy", classes=None, test_on="val")),
)
