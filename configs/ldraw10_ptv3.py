"""Ten kinds of building bricks on a small Point Transformer V3: the recipe of modelnet40_pape.py, in minutes on a CPU.

For comparing encodings, so without the convolution, which would tell where points are without them:
docs/results/results.md.
"""

# pyright: reportAttributeAccessIssue=false
_base_ = ["_base_/modelnet40.py"]
data_root = "data/ldraw10_modelnet_layout/ldraw10_normal_resampled"
model = dict(
    modalities=dict(points=dict(unit=0.25)),
    backbone=dict(
        grid_size=0.4,  # of the unit: 0.1
        encoding=dict(type="PaPE", m=50),
        enc_depths=(1, 2, 1),
        enc_channels=(32, 64, 128),
        enc_heads=(2, 4, 8),
        window=128,
        drop_path=0.0,
    ),
    head=dict(classes=10, hidden=(), lovasz=0.0),
)
# samples as in the recipe's small version
_small = lambda loader: dict(num_workers=0, dataset=dict(type="ModelNet", transforms=loader.dataset.transforms))
train_dataloader = dict(batch_size=16) | _small(_base_.sample.train_dataloader)
val_dataloader = _small(_base_.sample.val_dataloader)
test_dataloader = _small(_base_.sample.test_dataloader)
optimizer = dict(lr=3e-3)
schedule = dict(warmup=0.15)
train_cfg = dict(max_epochs=16, clip_grad=1.0)
