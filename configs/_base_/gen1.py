"""GEN1 automotive detection as in the PaPE paper: ViT-B on spiking patches, YOLOv10's head, 150 epochs.

Patches of 16 x 16 pixels spike at 256 events, then rest for 100 ms. Positions are (age in 100 ms, row, column): times
count back from the labeled moment. The map of each cell is its most recent token.
"""

_base_ = ["_transformer.py"]
data_root = "data/gen1"
model = dict(
    modalities=dict(events=dict(type="SpikingPatches", patch=16, bins=10, time_unit=100_000, class_token=False)),
    backbone=dict(position_dims=3),
    head=dict(
        type="Detector",
        classes=2,
        neck=dict(type="SimpleFeaturePyramid", reduced=True, cells=(15, 19), ages=True),
        patch=16,
        norm_eps=1e-5,
        norm_momentum=0.1,
    ),
)

_pack = [
    dict(type="PackSpikes", threshold=256, refractory=100_000, patch=16, bins=10, reference="end"),
    dict(type="PackEventBoxes"),
]
_eval = [dict(type="LastEvents", count=500_000), *_pack]  # for files of one's own; the dataset has no more of its own
_changes = [
    *(dict(type=name) for name in ("DropArea", "DropTime", "DropEvents")),
    dict(type="RotateEvents", degrees=20),
]
_train = [
    dict(type="FlipEvents", p=0.5),
    dict(type="OneOf", transforms=_changes),
    *_pack,
]
train_dataloader = dict(batch_size=64, num_workers=16, dataset=dict(type="GEN1", transforms=_train))
val_dataloader = dict(batch_size=64, num_workers=16, dataset=dict(type="GEN1", transforms=_eval))
test_dataloader = dict(batch_size=64, num_workers=16, dataset=dict(type="GEN1", transforms=_eval))

optimizer = dict(type="AdamW", lr=1e-4, betas=(0.9, 0.999), weight_decay=0.05)  # decay on all parameters
schedule = dict(type="WarmupCosine", warmup=0.05, end=0.01)
train_cfg = dict(max_epochs=150, amp="bf16")
metrics = [dict(type="Gen1Metric")]

_few = [
    dict(type="PackSpikes", threshold=32, refractory=50_000, patch=16, bins=1, reference="end"),
    dict(type="PackEventBoxes"),
]
_few_eval = [dict(type="LastEvents", count=12_000), *_few]
_few_train = [dict(type="FlipEvents", p=0.5), dict(type="DropEvents", share=(0, 0.3)), *_few]
sample_data = "gen1"
sample = dict(
    data_root="data/samples/gen1",
    model=dict(
        modalities=dict(events=dict(bins=1)),
        backbone=dict(dim=96, depth=4, heads=3, drop_path=0.0),
        head=dict(neck=dict(width=64, scales=(1, 0.5)), least_side=16),
    ),
    train_dataloader=dict(batch_size=8, num_workers=0, dataset=dict(most=12_000, transforms=_few_train)),
    val_dataloader=dict(batch_size=32, num_workers=0, dataset=dict(most=12_000, transforms=_few_eval)),
    test_dataloader=dict(batch_size=32, num_workers=0, dataset=dict(most=12_000, transforms=_few_eval)),
    optimizer=dict(lr=1e-3),
    train_cfg=dict(max_epochs=13, amp=None),
)
