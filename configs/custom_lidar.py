"""3-D detection in your own LiDAR scans, or KITTI's, with UniTR's blocks. docs/get-started/custom-lidar.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_lidar --data-root data/mine
"""

# Pillars of 0.4 m between -51.2 and 51.2 m; `_low` and `_high` set another range.

data_root = "data/mine"
_low, _high, _cell = (-51.2, -51.2, -5.0), (51.2, 51.2, 3.0), 0.4
model = dict(
    type="TokenModel",
    modalities=dict(points=dict(type="Pillars", low=_low, high=_high, cell=_cell)),
    backbone=dict(
        type="UniTR",
        dim=96,
        heads=6,
        encoding=dict(type="PaPE", m=50),
        blocks=("own", "own"),
        corner=_low[:2],
        cell=_cell,
    ),
    head=dict(
        type="CenterPoint",
        neck=dict(type="BirdsEyeNet", low=_low[:2], high=_high[:2], cell=_cell, blocks=(1, 1, 1), strides=(1, 2, 2),
                  widths=(64, 96, 128), up=64, norm_momentum=0.1),
        norm_momentum=0.1,
    ),
)  # fmt: skip

_keep = [dict(type="KeepRange", low=_low, high=_high), dict(type="PackDriving", reach=51.2)]
_train = [dict(type="MoveScene", flip=0.5, degrees=45, scale=(0.95, 1.05), shift=0.2), *_keep]
train_dataloader = dict(batch_size=4, num_workers=4, dataset=dict(type="Lidar", transforms=_train, paste=0.5))
val_dataloader = dict(batch_size=8, num_workers=4, dataset=dict(type="Lidar", split="val", transforms=_keep))
test_dataloader = dict(batch_size=8, num_workers=4, dataset=dict(type="Lidar", split="test", transforms=_keep))

optimizer = dict(type="AdamW", lr=2e-3, betas=(0.9, 0.99), weight_decay=0.03)
schedule = dict(type="OneCycle", warmup=0.4, div=10, final_div=1e4, betas=(0.85, 0.95))
train_cfg = dict(max_epochs=40, clip_grad=10.0)
metrics = [dict(type="CenterDistance")]

_small_low, _small_high, _small_cell = (-32.0, -32.0, -5.0), (32.0, 32.0, 3.0), 0.8
_small_keep = [dict(type="KeepRange", low=_small_low, high=_small_high), dict(type="PackDriving", reach=32.0)]
_small_plane = dict(low=_small_low[:2], high=_small_high[:2], cell=_small_cell)
_small_train = [dict(type="MoveScene", flip=0.5, degrees=20, scale=(0.95, 1.05), shift=0.0), *_small_keep]
sample_data = "lidar"
sample = dict(
    data_root="data/samples/lidar",
    model=dict(
        modalities=dict(points=dict(low=_small_low, high=_small_high, cell=_small_cell)),
        backbone=dict(
            dim=48, heads=4, blocks=("own",), corner=_small_low[:2], cell=_small_cell, window=(10, 10), size=64
        ),
        head=dict(classes=4, neck=dict(widths=(32, 48, 64), stride=1, up=32, **_small_plane)),
    ),
    train_dataloader=dict(num_workers=0, dataset=dict(transforms=_small_train, paste=0.0)),
    val_dataloader=dict(num_workers=0, dataset=dict(transforms=_small_keep)),
    test_dataloader=dict(num_workers=0, dataset=dict(transforms=_small_keep)),
    train_cfg=dict(max_epochs=12),
)
versions = dict(
    small=dict(
        model=dict(
            backbone=dict(dim=48, heads=4, blocks=("own",)),
            head=dict(neck=dict(widths=(32, 48, 64), up=32)),
        ),
        train_cfg=dict(max_epochs=20),
    )
)
