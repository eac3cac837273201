"""Your own images, one folder per class: ViT-S/16 at 224 px with the augmentation of the ImageNet recipe.

As many classes as there are folders: --data-root data/mine. docs/get-started/custom-photos.md

preset=small is a small model on the same data: 48 pixels in patches of 6.
"""

_base_ = ["_transformer.py"]
data_root = "data/imagefolder"
model = dict(
    modalities=dict(image=dict(type="ImagePatches", patch=16, class_at="auto")),
    backbone=dict(dim=384, heads=6, position_dims=2),
    head=dict(type="Classifier", label_smoothing=0.1),  # as many classes as the data has
    mix=dict(type="ImageMix", mixup=0.8, cutmix=1.0),
)

_train = [
    dict(type="RandomResizedCrop", size=224),
    dict(type="Flip"),
    dict(type="RandAugment"),
    dict(type="PackImage"),
]
_eval = [dict(type="EvalCrop", size=224), dict(type="PackImage")]
train_dataloader = dict(batch_size=128, num_workers=4, dataset=dict(type="ImageFolder", transforms=_train))
val_dataloader = dict(batch_size=256, num_workers=4, dataset=dict(type="ImageFolder", transforms=_eval))
test_dataloader = dict(batch_size=256, num_workers=4, dataset=dict(type="ImageFolder", transforms=_eval))

optimizer = dict(type="AdamW", lr=6e-4, weight_decay=0.05)
schedule = dict(type="WarmupCosine", warmup=0.05)
train_cfg = dict(max_epochs=100)
metrics = [dict(type="Accuracy")]

_small_train = [
    dict(type="RandomResizedCrop", size=48, scale=(0.6, 1.0)),
    dict(type="Flip"),
    dict(type="PackImage"),
]
_small_eval = [dict(type="EvalCrop", size=48), dict(type="PackImage")]
sample_data = "imagefolder"
sample = dict(
    data_root="data/samples/imagefolder",
    model=dict(
        modalities=dict(image=dict(patch=6)),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
        head=dict(classes=10),
        mix=None,
    ),
    train_dataloader=dict(batch_size=64, num_workers=2, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(num_workers=2, dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(num_workers=2, dataset=dict(transforms=_small_eval)),
    optimizer=dict(lr=1e-3),
    train_cfg=dict(max_epochs=15),
)
versions = dict(
    small=dict(
        model=dict(
            modalities=dict(image=dict(patch=6)),
            backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
            mix=None,
        ),
        train_dataloader=dict(batch_size=64, dataset=dict(transforms=_small_train)),
        val_dataloader=dict(dataset=dict(transforms=_small_eval)),
        test_dataloader=dict(dataset=dict(transforms=_small_eval)),
        optimizer=dict(lr=1e-3),
        train_cfg=dict(max_epochs=30),
    )
)
