"""Segmentation of your own images at their own ratios, packed by a budget of tokens. docs/how-to/any-size.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_segmentation_native --data-root data/mine
"""

_base_ = ["custom_segmentation.py"]
_train = [
    dict(type="KeepAspect", longest=512, multiple_of=16, scale=(0.3, 1.0), ratio=(3 / 4, 4 / 3)),
    dict(type="FlipBoxes"),
    dict(type="RandAugmentBoxes"),
    dict(type="PackMask"),
]
_eval = [dict(type="KeepAspect", longest=512, multiple_of=16), dict(type="PackMask")]
train_dataloader = dict(batch_tokens=16_384, dataset=dict(transforms=_train))  # of 16 squares of 512 pixels
val_dataloader = dict(dataset=dict(transforms=_eval))
test_dataloader = dict(dataset=dict(transforms=_eval))

_small_train = [
    dict(type="KeepAspect", longest=96, multiple_of=8, scale=(0.6, 1.0), ratio=(3 / 4, 4 / 3)),
    dict(type="FlipBoxes"),
    dict(type="PackMask"),
]
_small_eval = [dict(type="KeepAspect", longest=96, multiple_of=8), dict(type="PackMask")]
_small = dict(
    train_dataloader=dict(batch_tokens=2304, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(dataset=dict(transforms=_small_eval)),
)
sample = _small
versions = dict(small=_small)
