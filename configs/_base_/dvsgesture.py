"""DVS128 Gesture as in the PaPE paper (appendix, Table 8): ViT-B on spiking patches of the whole gesture.

Patches of 16 x 16 pixels spike at 256 events, then rest for 100 ms. Positions are (time since the gesture began in
50 ms, row, column). The class token stands at the origin, as in that repository; in the small version where the
encoding reads it best. Users 21 to 23 validate.
"""

_base_ = ["_transformer.py"]
data_root = "data/dvsgesture"
model = dict(
    modalities=dict(events=dict(type="SpikingPatches", patch=16, bins=10, time_unit=50_000, class_at="origin")),
    backbone=dict(position_dims=3),
    head=dict(type="Classifier", classes=11, label_smoothing=0.1),
)

_mirrored = [0, 2, 1, 6, 5, 4, 3, 7, 8, 9, 10]  # right becomes left, clockwise counter-clockwise
_spikes = dict(type="PackSpikes", threshold=256, refractory=100_000, patch=16, bins=10, reference="start")
_changes = [
    dict(type=name) for name in ("DropArea", "DropTime", "DropEvents", "ShearEvents", "RollEvents", "RotateEvents")
]
_train = [
    dict(type="FlipEvents", p=0.5, labels=_mirrored),
    dict(type="OneOf", transforms=_changes),
    _spikes,
]
train_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="DvsGesture", transforms=_train))
val_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="DvsGesture", transforms=[_spikes]))
test_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="DvsGesture", transforms=[_spikes]))

optimizer = dict(type="AdamW", lr=5e-5, betas=(0.9, 0.999), weight_decay=0.05)  # decay on all parameters
schedule = dict(type="WarmupCosine", warmup=15 / 300, end=0.01)
train_cfg = dict(max_epochs=300, amp="fp16")
metrics = [dict(type="Accuracy")]

_few = dict(type="PackSpikes", threshold=64, refractory=50_000, patch=16, bins=5, reference="start")
_small_train = [dict(type="FlipEvents", p=0.5, labels=_mirrored), dict(type="DropEvents", share=(0, 0.3))]
sample_data = "dvsgesture"
sample = dict(
    data_root="data/samples/dvsgesture",
    model=dict(
        modalities=dict(events=dict(bins=5, time_unit=100_000, class_at="auto")),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
    ),
    train_dataloader=dict(batch_size=16, num_workers=0, dataset=dict(transforms=[*_small_train, _few])),
    val_dataloader=dict(num_workers=0, dataset=dict(transforms=[_few])),
    test_dataloader=dict(num_workers=0, dataset=dict(transforms=[_few])),
    optimizer=dict(lr=1e-3),
    schedule=dict(warmup=0.1),
    train_cfg=dict(max_epochs=16, amp=None, clip_grad=1.0),
)

# controls, which are to stay below: the same events at times of others; one frame of 50 ms, a token for each patch
_times, _moment = dict(type="ShuffleTimes"), dict(type="StillMoment", length=50_000)
_frame = dict(type="PackFrames", window=50_000, patch=16)
_without = lambda control, pack, small, bins: dict(
    model=dict(modalities=dict(events=dict(bins=bins))),
    train_dataloader=dict(dataset=dict(transforms=[control, *_train[:-1], pack])),
    val_dataloader=dict(dataset=dict(transforms=[control, pack])),
    test_dataloader=dict(dataset=dict(transforms=[control, pack])),
    sample=dict(
        model=dict(modalities=dict(events=dict(bins=min(bins, 5)))),
        train_dataloader=dict(dataset=dict(transforms=[control, *_small_train, small])),
        val_dataloader=dict(dataset=dict(transforms=[control, small])),
        test_dataloader=dict(dataset=dict(transforms=[control, small])),
    ),
)
_origin = dict(sample=dict(model=dict(modalities=dict(events=dict(class_at="origin")))))
versions = dict(
    shuffled=_without(_times, _spikes, _few, 10),
    still=_without(_moment, _frame, _frame, 1),
    paper=_origin,  # the class token of the small version where the whole recipe has it
)
