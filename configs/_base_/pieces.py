"""Generated samples of pieces of eight kinds in eight arrangements: 4 blocks of width 64, mean of the tokens, 8 epochs.

The label is the arrangement, which needs positions. `--cfg-options dataset.label=kind` is the task that needs none.
"""

_base_ = ["_transformer.py"]
data_root = "generated"  # no folder: samples are generated in memory
model = dict(
    backbone=dict(dim=64, depth=4, heads=4, position_dims=3, drop_path=0.0),
    head=dict(type="Classifier", classes=8, pool="mean"),
)
dataset = dict(label="arrangement", size=6400)
train_dataloader = dict(batch_size=64, num_workers=0)
val_dataloader = dict(batch_size=128, num_workers=0)
test_dataloader = dict(batch_size=128, num_workers=0)
optimizer = dict(type="AdamW", lr=2e-3, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=8, clip_grad=1.0)
metrics = [dict(type="Accuracy")]
sample = dict(dataset=dict(size=640), train_cfg=dict(max_epochs=2))
