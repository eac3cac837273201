"""Classification of 850 recordings of N-MNIST: 4 blocks of width 64 with PaPE on spiking patches.
Cost: 1.4 to 2.5 minutes on one CPU thread.
Reaches: 87.21 ± 3.89 % accuracy (5 folds, optimizer.lr=3e-3).
Command: ndformer train nmnist_small --data-root data/nmnist
"""

# Train and test files are joined and cut into five parts, of which the seed selects the test part: seeds 0 to 4 test
# each recording once.

_base_ = ["_base_/nmnist.py"]
model = dict(
    backbone=dict(
        dim=64,
        depth=4,
        drop_path=0.0,
        encoding=dict(type="PaPE", m=50, init_radius=[1, 7.3], position_scale=[1, 5, 6.6]),
    ),
)
train_dataloader = dict(batch_size=32, num_workers=0, dataset=dict(folds=5, fold="seed", cache="memory"))
val_dataloader = dict(num_workers=0, dataset=dict(folds=5, fold="seed", cache="memory"))
test_dataloader = dict(num_workers=0, dataset=dict(folds=5, fold="seed"))
optimizer = dict(lr=1.5e-3)
train_cfg = dict(max_epochs=30, clip_grad=1.0)
sample = dict(
    model=dict(backbone=dict(dim=64)),
    train_dataloader=dict(dataset=dict(folds=1, fold=0)),
    val_dataloader=dict(dataset=dict(folds=1, fold=0)),
    test_dataloader=dict(dataset=dict(folds=1, fold=0)),
)
versions = dict(
    comparison=dict(  # the recipe of docs/results/comparison.md, alike for all encodings
        model=dict(modalities=dict(events=dict(class_token=False)), head=dict(pool="mean")),
        schedule=dict(warmup=0.2),
        train_cfg=dict(max_epochs=60),
    ),
)
