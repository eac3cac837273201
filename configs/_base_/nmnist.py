"""N-MNIST: a small transformer on spiking patches of 8 x 8 pixels of the 0.3 s in which a digit is seen.

Positions are (time since the recording began in 20 ms, row, column), all about as far-reaching as the five patches of a
side are many, times three.
"""

_base_ = ["_transformer.py"]
data_root = "data/nmnist"
model = dict(
    modalities=dict(events=dict(type="SpikingPatches", patch=8, bins=6, time_unit=20_000, class_at="auto")),
    backbone=dict(dim=128, depth=6, heads=4, position_dims=3),
    head=dict(type="Classifier", classes=10, label_smoothing=0.1),
)

_spikes = dict(type="PackSpikes", threshold=32, refractory=10_000, patch=8, bins=6)
_train = [dict(type="RollEvents", most=2), dict(type="DropEvents", share=(0.0, 0.3)), _spikes]
train_dataloader = dict(batch_size=64, num_workers=2, dataset=dict(type="NMNIST", transforms=_train))
val_dataloader = dict(batch_size=128, num_workers=2, dataset=dict(type="NMNIST", transforms=[_spikes]))
test_dataloader = dict(batch_size=128, num_workers=2, dataset=dict(type="NMNIST", transforms=[_spikes]))

optimizer = dict(type="AdamW", lr=1e-3, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.05)
train_cfg = dict(max_epochs=30)
metrics = [dict(type="Accuracy")]

sample_data = "nmnist"
sample = dict(
    data_root="data/samples/nmnist",
    model=dict(backbone=dict(dim=96, depth=4, drop_path=0.0)),
    train_dataloader=dict(batch_size=32, num_workers=0),
    val_dataloader=dict(num_workers=0),
    test_dataloader=dict(num_workers=0),
    train_cfg=dict(max_epochs=15),
)
