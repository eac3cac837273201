"""Classification of your own event-camera recordings, a folder for each class. docs/get-started/custom-recordings.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_events --data-root data/mine
"""

# A small transformer on spiking patches of 16 x 16 pixels. Positions are (time since the first event in 50 ms, row,
# column). Samples are not mirrored: a motion to the left and one to the right may be two classes.

_base_ = ["_base_/dvsgesture.py"]
data_root = "data/mine"
model = dict(
    modalities=dict(events=dict(class_at="auto")),
    backbone=dict(dim=192, depth=6, heads=3, drop_path=0.0, encoding=dict(type="PaPE", m=50)),
    head=dict(classes=None),  # as many as the data has
)

_spikes = dict(type="PackSpikes", threshold=256, refractory=100_000, patch=16, bins=10, reference="start")
_changed = [dict(type="DropEvents"), dict(type="DropTime"), dict(type="DropArea"), dict(type="RollEvents")]
_train = [dict(type="OneOf", transforms=_changed), _spikes]
train_dataloader = dict(num_workers=2, dataset=dict(type="EventFolder", transforms=_train))
val_dataloader = dict(num_workers=2, dataset=dict(type="EventFolder", transforms=[_spikes]))
test_dataloader = dict(num_workers=2, dataset=dict(type="EventFolder", transforms=[_spikes]))
optimizer = dict(lr=1e-3)
train_cfg = dict(max_epochs=50, amp=None, clip_grad=1.0)

versions = dict(
    _delete_=True,
    small=dict(
        model=dict(backbone=dict(dim=96, depth=4)),
        train_cfg=dict(max_epochs=30),
    ),
)

_of_sample = dict(dataset=dict(type="DvsGesture"))
sample = dict(
    model=dict(head=dict(classes=11)),
    train_dataloader=_of_sample,
    val_dataloader=_of_sample,
    test_dataloader=_of_sample,
)
