"""A view and a point cloud of the same object as one token set, on generated data. docs/get-started/many-modalities.md
Cost: not recorded; 40 epochs on generated data.
Reaches: 98.3 % accuracy (1 seed); the view or the cloud alone cannot pass 50 %.
Command: ndformer train paired_sample
"""

# Tokens of both lie in one 3-D space. From the view alone or the cloud alone, two classes remain for each object.

data_root = "data/samples/paired"
model = dict(
    type="TokenModel",
    modalities=dict(
        # the view's plane lies before the cloud, at z = 1; positions are counted in quarters, as those of the cloud
        image=dict(
            type="ImagePatches",
            patch=8,
            class_token=False,
            plane=((-10 / 3, 10 / 3, 4.0), (0.0, -4 / 3, 0.0), (4 / 3, 0.0, 0.0)),
        ),
        points=dict(type="PointPatches", centers=48, neighbors=16, unit=0.25),
    ),
    backbone=dict(
        type="Transformer",
        dim=96,
        depth=4,
        heads=4,
        position_dims=3,
        encoding=dict(type="PaPE", m=50),
        initial_norm=True,
    ),
    head=dict(type="Classifier", classes=12, pool="mean"),
)

_packed = lambda *points: dict(
    type="PerModality",
    chains=dict(image=[dict(type="PackImage")], points=[*points, dict(type="PackPoints")]),
)
_train = [_packed(dict(type="SamplePoints", count=384)), dict(type="DropModality", probability=0.5)]
_eval = [_packed(dict(type="SamplePoints", count=384, method="farthest"))]
train_dataloader = dict(batch_size=16, num_workers=0, dataset=dict(type="Paired", transforms=_train))
val_dataloader = dict(batch_size=64, num_workers=0, dataset=dict(type="Paired", split="val", transforms=_eval))
test_dataloader = dict(batch_size=64, num_workers=0, dataset=dict(type="Paired", split="test", transforms=_eval))

optimizer = dict(type="AdamW", lr=7e-4, weight_decay=0.01)
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=40, clip_grad=1.0)
metrics = [dict(type="Accuracy")]

sample_data = "paired"
sample = {}  # it is one
