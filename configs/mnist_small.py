"""A few thousand digits in MNIST's files, in minutes on a CPU: docs/results/results.md."""

_base_ = ["_base_/mnist.py"]
model = dict(
    backbone=dict(
        dim=64,
        depth=4,
        drop_path=0.0,
        encoding=dict(type="PaPE", m=50, init_radius=[1, 3]),
    ),
)
train_dataloader = dict(batch_size=64, num_workers=0)
val_dataloader = dict(num_workers=0)
test_dataloader = dict(num_workers=0)
optimizer = dict(lr=1.5e-3)
train_cfg = dict(max_epochs=8)
sample = dict(model=dict(backbone=dict(dim=64)), train_cfg=dict(max_epochs=8))
