"""Your own images at their own ratios, packed by a budget of tokens: ViT-S/16 with PaPE. docs/how-to/any-size.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train imagefolder_native --data-root data/mine
"""

_base_ = ["_base_/imagefolder.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)), mix=None)  # mixing needs images of one size
_train = [
    dict(type="KeepAspect", longest=256, multiple_of=16, scale=(0.3, 1.0), ratio=(3 / 4, 4 / 3)),
    dict(type="Flip"),
    dict(type="RandAugment"),
    dict(type="PackImage"),
]
_eval = [dict(type="KeepAspect", longest=256, multiple_of=16), dict(type="PackImage")]
train_dataloader = dict(batch_tokens=25_216, dataset=dict(transforms=_train))  # the tokens of 128 squares of 224 pixels
val_dataloader = dict(batch_size=64, dataset=dict(transforms=_eval))
test_dataloader = dict(batch_size=64, dataset=dict(transforms=_eval))

_small_train = [
    dict(type="KeepAspect", longest=60, multiple_of=6, scale=(0.6, 1.0)),
    dict(type="Flip"),
    dict(type="PackImage"),
]
_small_eval = [dict(type="KeepAspect", longest=60, multiple_of=6), dict(type="PackImage")]
_small = dict(
    train_dataloader=dict(batch_tokens=5184, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(dataset=dict(transforms=_small_eval)),
)
sample = _small
versions = dict(small=_small)
