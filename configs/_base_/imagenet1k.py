"""ImageNet-1K as in the PaPE paper (appendix, Table 8): ViT-B/16 at 224 px, 300 epochs.

The class token stands at the origin and patches are counted from 1, as in that repository. 1 % of train validates; the
official validation images are the test set. The batch of 1024 is for one device: with less memory, a smaller
batch_size and train_cfg.accumulate make the same step.
"""

data_root = "data/imagenet1k"
model = dict(
    type="TokenModel",
    modalities=dict(image=dict(type="ImagePatches", patch=16, class_at="origin", start=1)),
    backbone=dict(
        type="Transformer",
        dim=768,
        depth=12,
        heads=12,
        position_dims=2,
        encoding=dict(type="NoPE"),
        drop_path=0.1,
        initial_norm=True,
    ),
    head=dict(type="Classifier", classes=1000, label_smoothing=0.1),
    mix=dict(type="ImageMix", mixup=0.8, cutmix=1.0),
)

_train = [
    dict(type="RandomResizedCrop", size=224),
    dict(type="Flip"),
    dict(type="RandAugment"),
    dict(type="PackImage"),
]
_eval = [dict(type="EvalCrop", size=224), dict(type="PackImage")]
train_dataloader = dict(
    batch_size=1024,
    num_workers=16,
    dataset=dict(type="ImageNet", split="train", transforms=_train, holdout=0.01),
)
val_dataloader = dict(
    batch_size=256,
    num_workers=16,
    dataset=dict(type="ImageNet", split="val", transforms=_eval, holdout=0.01),
)
test_dataloader = dict(
    batch_size=256,
    num_workers=16,
    dataset=dict(type="ImageNet", split="test", transforms=_eval),
)

optimizer = dict(type="AdamW", lr=6e-4, betas=(0.9, 0.999), weight_decay=0.05)  # decay on all parameters
schedule = dict(type="WarmupCosine", warmup=15 / 300)
train_cfg = dict(max_epochs=300, amp="fp16")
metrics = [dict(type="Accuracy")]

_small_eval = [dict(type="EvalCrop", size=48), dict(type="PackImage")]
sample_data = "imagenet1k"
sample = dict(
    data_root="data/samples/imagenet1k",
    model=dict(
        modalities=dict(image=dict(patch=6)),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
        head=dict(classes=10),
        mix=None,
    ),
    train_dataloader=dict(
        batch_size=64,
        num_workers=2,
        dataset=dict(
            transforms=[
                dict(type="RandomResizedCrop", size=48, scale=(0.6, 1.0)),
                dict(type="Flip"),
                dict(type="PackImage"),
            ],
            holdout=0.1,
        ),
    ),
    val_dataloader=dict(num_workers=2, dataset=dict(transforms=_small_eval, holdout=0.1)),
    test_dataloader=dict(num_workers=2, dataset=dict(transforms=_small_eval)),
    optimizer=dict(lr=1e-3),
    train_cfg=dict(max_epochs=15, amp=None),
)
