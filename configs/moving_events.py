"""Generated event recordings of pieces that flash along one of eight directions: the direction, or the kind of pieces.
Cost: not measured.
Reaches: not measured.
Command: ndformer train moving_events
"""

# The other task, which needs no positions: --cfg-options dataset.label=kind

data_root = "generated"  # no folder: samples are generated in memory
model = dict(
    type="TokenModel",
    modalities=dict(events=dict(type="SpikingPatches", patch=8, bins=4, time_unit=20_000, class_token=False)),
    backbone=dict(
        type="Transformer",
        dim=64,
        depth=4,
        heads=4,
        position_dims=3,
        encoding=dict(type="PaPE", m=50, init_radius=[1, 2]),
        initial_norm=True,
    ),
    head=dict(type="Classifier", classes=8, pool="mean"),
)
_spikes = dict(type="PackSpikes", threshold=16, refractory=10_000, patch=8, bins=4)
_streams = dict(type="MovingEvents", label="arrangement", size=6400, transforms=[_spikes], cache="memory")
train_dataloader = dict(batch_size=64, num_workers=0, dataset=_streams | dict(split="train"))
val_dataloader = dict(batch_size=128, num_workers=0, dataset=_streams | dict(split="val"))
test_dataloader = dict(batch_size=128, num_workers=0, dataset=_streams | dict(split="test"))
optimizer = dict(type="AdamW", lr=2e-3, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=8, clip_grad=1.0)
metrics = [dict(type="Accuracy")]
versions = None  # it is small already
sample = dict(dataset=dict(size=640), train_cfg=dict(max_epochs=2))
