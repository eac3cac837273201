"""Generated films of pieces that move in one of eight directions: the direction, or the kind of pieces, with PaPE.
Cost: not measured.
Reaches: not measured.
Command: ndformer train moving_pieces
"""

# The other task, which needs no positions: --cfg-options dataset.label=kind

data_root = "generated"  # no folder: samples are generated in memory
model = dict(
    type="TokenModel",
    modalities=dict(video=dict(type="Tubelets", tubelet=(1, 8, 8), class_token=False)),
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
_films = dict(type="MovingPieces", label="arrangement", size=6400, transforms=[dict(type="PackVideo")])
train_dataloader = dict(batch_size=64, num_workers=0, dataset=_films | dict(split="train"))
val_dataloader = dict(batch_size=128, num_workers=0, dataset=_films | dict(split="val"))
test_dataloader = dict(batch_size=128, num_workers=0, dataset=_films | dict(split="test"))
optimizer = dict(type="AdamW", lr=2e-3, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=8, clip_grad=1.0)
metrics = [dict(type="Accuracy")]
versions = None  # it is small already
sample = dict(dataset=dict(size=640), train_cfg=dict(max_epochs=2))
