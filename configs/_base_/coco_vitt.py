"""COCO 2017 for one GPU of 24 GB: ViT-T/16 at 320 px, ViTDet's neck with its convolutions, 50 epochs. Not a paper's."""

_base_ = ["coco.py"]
model = dict(
    backbone=dict(dim=192, heads=3, drop_path=0.0),
    head=dict(neck=dict(width=128, reduced=False), norm_eps=1e-3, norm_momentum=0.03),
)
_train = [dict(type="LargeScaleJitter", size=320, scale=(0.5, 1.5)), dict(type="FlipBoxes"), dict(type="PackBoxes")]
_eval = [dict(type="Letterbox", size=320), dict(type="PackBoxes")]
train_dataloader = dict(num_workers=8, dataset=dict(transforms=_train))
val_dataloader = dict(num_workers=8, dataset=dict(transforms=_eval))
test_dataloader = dict(num_workers=8, dataset=dict(transforms=_eval))
optimizer = dict(lr=5e-4)
param_groups = dict(no_decay=True)
schedule = dict(warmup=0.02)
train_cfg = dict(max_epochs=50, amp="bf16", clip_grad=10.0)
ema = dict(decay=0.9998)
sample = dict(ema=None)
