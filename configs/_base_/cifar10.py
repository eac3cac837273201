"""CIFAR-10 in the setting of the SaPE2 paper: ViT-S with patches of 4, Adam, batches of 128, 400 epochs.

That paper does not give the learning rate and its schedule, nor the augmentation; these are the field's usual ones.
"""

_base_ = ["_transformer.py"]
data_root = "data/cifar10"
model = dict(
    modalities=dict(image=dict(type="ImagePatches", patch=4)),
    backbone=dict(dim=384, heads=6, position_dims=2),
    head=dict(type="Classifier", classes=10),
)

_train = [dict(type="RandomCrop", size=32, padding=4), dict(type="Flip"), dict(type="PackImage")]
_eval = [dict(type="EvalCrop", size=32, share=1.0), dict(type="PackImage")]  # for photos of other sizes
train_dataloader = dict(batch_size=128, num_workers=2, dataset=dict(type="CIFAR10", transforms=_train))
val_dataloader = dict(batch_size=256, num_workers=2, dataset=dict(type="CIFAR10", transforms=_eval))
test_dataloader = dict(batch_size=256, num_workers=2, dataset=dict(type="CIFAR10", transforms=_eval))

optimizer = dict(type="Adam", lr=5e-4)
schedule = dict(type="WarmupCosine", warmup=0.05)
train_cfg = dict(max_epochs=400)
metrics = [dict(type="Accuracy")]

_small_train = [dict(type="RandomCrop", size=32, padding=2), *_train[1:]]
sample_data = "cifar10"
sample = dict(
    data_root="data/samples/cifar10",
    model=dict(backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0)),
    train_dataloader=dict(batch_size=64, dataset=dict(transforms=_small_train)),
    optimizer=dict(lr=1e-3),
    train_cfg=dict(max_epochs=12),
)
