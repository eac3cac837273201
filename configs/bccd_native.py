"""Blood cells on photographs at their own ratios, in batches of mixed sizes. docs/how-to/any-size.md
Cost: 6.6 minutes on one thread of a machine that other runs shared, where bccd takes 4.6.
Reaches: 50.44 ± 3.37 % mAP50 (3 seeds; bccd there 48.00 ± 2.04).
Command: ndformer train bccd_native --data-root data/bccd_voc
"""

_base_ = ["bccd.py"]
_train = [
    dict(type="KeepAspect", longest=320, multiple_of=16, scale=(0.6, 1.0), ratio=(4 / 5, 5 / 4)),
    dict(type="FlipBoxes"),
    dict(type="PackBoxes"),
]
_eval = [dict(type="KeepAspect", longest=320, multiple_of=16), dict(type="PackBoxes")]
train_dataloader = dict(batch_tokens=2400, dataset=dict(transforms=_train))  # of 8 photographs of 240 x 320
val_dataloader = dict(dataset=dict(transforms=_eval))
test_dataloader = dict(dataset=dict(transforms=_eval))

_small_train = [
    dict(type="KeepAspect", longest=96, multiple_of=8, scale=(0.8, 1.0), ratio=(3 / 4, 4 / 3)),
    dict(type="FlipBoxes"),
    dict(type="PackBoxes"),
]
_small_eval = [dict(type="KeepAspect", longest=96, multiple_of=8), dict(type="PackBoxes")]
sample = dict(
    train_dataloader=dict(batch_tokens=2304, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(dataset=dict(transforms=_small_eval)),
)
