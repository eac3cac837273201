"""Classification of ten kinds of building bricks: a small Point Transformer V3 with PaPE.
Cost: 1.7 to 3.0 minutes on one CPU thread.
Reaches: 43.57 ± 6.56 % accuracy (3 seeds).
Command: ndformer train ldraw10_ptv3 --data-root data/ldraw10_modelnet_layout/ldraw10_normal_resampled
"""

# The recipe of modelnet40_pape.py without the convolution, which gives positions to a model without an encoding.

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
