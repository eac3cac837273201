"""MNIST, and whatever else comes in its files: a small ViT with 49 patches of 4 x 4 gray pixels."""

_base_ = ["_transformer.py"]
data_root = "data/mnist"
model = dict(
    modalities=dict(image=dict(type="ImagePatches", patch=4, channels=1, class_at="auto")),
    backbone=dict(dim=128, depth=6, heads=4, position_dims=2),
    head=dict(type="Classifier", classes=10, label_smoothing=0.1),
)

_train = [dict(type="RandomCrop", size=28, padding=2), dict(type="PackImage")]
_eval = [dict(type="EvalCrop", size=28, share=1.0), dict(type="PackImage")]  # for photos of other sizes
train_dataloader = dict(batch_size=128, num_workers=2, dataset=dict(type="MNIST", transforms=_train))
val_dataloader = dict(batch_size=256, num_workers=2, dataset=dict(type="MNIST", transforms=_eval))
test_dataloader = dict(batch_size=256, num_workers=2, dataset=dict(type="MNIST", transforms=_eval))

optimizer = dict(type="AdamW", lr=1e-3, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.05)
train_cfg = dict(max_epochs=30)
metrics = [dict(type="Accuracy")]

sample_data = "mnist"
sample = dict(
    data_root="data/samples/mnist",
    model=dict(backbone=dict(dim=96, depth=4, drop_path=0.0)),
    train_dataloader=dict(batch_size=64),
    train_cfg=dict(max_epochs=15),
)
