"""Generated clouds of pieces on one of eight solids: the solid, or the kind of pieces, with PaPE.
Cost: not measured.
Reaches: not measured.
Command: ndformer train solid_pieces
"""

# The other task, which needs no positions: --cfg-options dataset.label=kind

data_root = "generated"  # no folder: samples are generated in memory
model = dict(
    type="TokenModel",
    modalities=dict(points=dict(type="PointPatches", centres=32, neighbours=16, features=0, unit=0.3)),
    backbone=dict(
        type="Transformer",
        dim=64,
        depth=4,
        heads=4,
        position_dims=3,
        encoding=dict(type="PaPE", m=50),
        initial_norm=True,
    ),
    head=dict(type="Classifier", classes=8, pool="mean"),
)
_packed = [dict(type="PackPoints", features=[])]
_clouds = dict(type="SolidPieces", label="arrangement", size=6400, transforms=_packed)
train_dataloader = dict(batch_size=64, num_workers=0, dataset=_clouds | dict(split="train"))
val_dataloader = dict(batch_size=128, num_workers=0, dataset=_clouds | dict(split="val"))
test_dataloader = dict(batch_size=128, num_workers=0, dataset=_clouds | dict(split="test"))
optimizer = dict(type="AdamW", lr=2e-3, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=8, clip_grad=1.0)
metrics = [dict(type="Accuracy")]
versions = None  # it is small already
sample = dict(dataset=dict(size=640), train_cfg=dict(max_epochs=2))
