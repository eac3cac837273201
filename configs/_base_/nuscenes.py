"""nuScenes with UniTR, as the PaPE paper trains it: published sizes, recipe and augmentations, random weights.

A position encoding stands in the place of the published learned embeddings; docs/get-started/driving.md tells what the
paper leaves
open, and how that was answered. Positions are meters from above and patches in a camera.
"""

data_root = "data/nuscenes"
_low, _high, _cell, _patch, _view = (-54.0, -54.0, -5.0), (54.0, 54.0, 3.0), 0.3, 8, (32, 88)
_plane = dict(low=_low[:2], high=_high[:2], cell=_cell)
model = dict(
    type="TokenModel",
    modalities=dict(
        points=dict(type="Pillars", low=_low, high=_high, cell=_cell, patch=_patch, view=_view),
        images=dict(type="CameraPatches", patch=_patch, heights=(-10.0, 10.0), layers=20, **_plane),
    ),
    backbone=dict(
        type="UniTR",
        dim=128,
        heads=8,
        encoding=dict(type="NoPE"),
        blocks=("own", "image", "image", "bev"),
        corner=_low[:2],
        cell=_cell,
        view=_view,
        window=(30, 30),
        size=90,
        checkpointing=True,
    ),
    head=dict(type="TransFusion", classes=10, sharp=(8, 9), neck=dict(type="BirdsEyeNet", **_plane)),
)

_keep = dict(type="KeepRange", low=_low, high=_high)
_size = (256, 704)
_train = [
    dict(type="MoveScene", flip=0.5, degrees=45, scale=(0.9, 1.1), shift=0.5),
    _keep,
    dict(type="CameraImages", size=_size, scale=(0.38, 0.55), degrees=5.4, flip=0.5),
    dict(type="PackDriving"),
]
_eval = [_keep, dict(type="CameraImages", size=_size, scale=(0.48, 0.48)), dict(type="PackDriving")]
train_dataloader = dict(
    batch_size=24,
    num_workers=16,
    dataset=dict(type="NuScenes", split="train", transforms=_train, balance=True, paste=1.0, paste_until=8),
)
val_dataloader = dict(batch_size=4, num_workers=8, dataset=dict(type="NuScenes", split="val", transforms=_eval))
test_dataloader = dict(batch_size=4, num_workers=8, dataset=dict(type="NuScenes", split="test", transforms=_eval))

optimizer = dict(type="AdamW", lr=3e-3, betas=(0.9, 0.99), weight_decay=0.03)  # decay on all parameters
schedule = dict(type="OneCycle", warmup=0.4, div=10, final_div=1e4, betas=(0.85, 0.95))
train_cfg = dict(max_epochs=10, amp="fp16", clip_grad=10.0)
metrics = [dict(type="NuScenes")]

# 64 x 64 m, pictures of 160 x 96 pixels
_small_low, _small_high, _small_cell, _small_view = (-32.0, -32.0, -5.0), (32.0, 32.0, 3.0), 0.8, (12, 20)
_small_plane = dict(low=_small_low[:2], high=_small_high[:2], cell=_small_cell)
_small_keep = dict(type="KeepRange", low=_small_low, high=_small_high)
_small = [
    _small_keep,
    dict(type="CameraImages", size=(96, 160), scale=(1.0, 1.0)),
    dict(type="PackDriving", reach=32.0),
]
_small_train = [dict(type="MoveScene", flip=0.5, degrees=20, scale=(0.95, 1.05), shift=0.0), *_small]
sample_data = "nuscenes"
sample = dict(
    data_root="data/samples/nuscenes",
    model=dict(
        modalities=dict(
            points=dict(low=_small_low, high=_small_high, cell=_small_cell, view=_small_view),
            images=dict(heights=(-1.0, 3.0), layers=8, **_small_plane),
        ),
        backbone=dict(
            dim=48,
            heads=3,
            blocks=("own", "image", "bev"),
            corner=_small_low[:2],
            cell=_small_cell,
            view=_small_view,
            window=(10, 10),
            size=64,
            checkpointing=False,
        ),
        head=dict(
            _delete_=True,
            type="CenterPoint",
            classes=10,
            neck=dict(
                type="BirdsEyeNet",
                blocks=(1, 1, 1),
                strides=(1, 2, 2),
                widths=(48, 64, 64),
                stride=1,
                up=32,
                patches=True,
                norm_momentum=0.1,
                **_small_plane,
            ),
            norm_momentum=0.1,
        ),
    ),
    train_dataloader=dict(
        batch_size=4, num_workers=0, dataset=dict(transforms=_small_train, balance=False, paste=0.0, sweeps=4)
    ),
    val_dataloader=dict(batch_size=8, num_workers=0, dataset=dict(transforms=_small, sweeps=4)),
    test_dataloader=dict(batch_size=8, num_workers=0, dataset=dict(transforms=_small, sweeps=4)),
    optimizer=dict(lr=3e-3),
    train_cfg=dict(max_epochs=6, amp=None),
)
