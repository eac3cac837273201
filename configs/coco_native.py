"""Detection on COCO 2017 at the photographs' own ratios, in packed batches: ViT-B/16 with PaPE. docs/how-to/any-size.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train coco_native --data-root data/coco
"""

_base_ = ["coco_pape.py"]
_train = [
    dict(type="KeepAspect", longest=736, multiple_of=16, scale=(0.3, 1.0), ratio=(3 / 4, 4 / 3)),
    dict(type="FlipBoxes"),
    dict(type="RandAugmentBoxes"),
    dict(type="PackBoxes"),
]
_eval = [dict(type="KeepAspect", longest=736, multiple_of=16), dict(type="PackBoxes")]
# photographs of 3:4 have as many tokens as squares of 640 pixels, of which the budget is 64
train_dataloader = dict(batch_tokens=102_400, dataset=dict(transforms=_train))
val_dataloader = dict(dataset=dict(transforms=_eval))
test_dataloader = dict(dataset=dict(transforms=_eval))

_small_train = [
    dict(type="KeepAspect", longest=112, multiple_of=8, scale=(0.8, 1.0), ratio=(3 / 4, 4 / 3)),
    dict(type="FlipBoxes"),
    dict(type="PackBoxes"),
]
_small_eval = [dict(type="KeepAspect", longest=112, multiple_of=8), dict(type="PackBoxes")]
sample = dict(
    train_dataloader=dict(batch_tokens=2304, dataset=dict(transforms=_small_train)),
    val_dataloader=dict(dataset=dict(transforms=_small_eval)),
    test_dataloader=dict(dataset=dict(transforms=_small_eval)),
)
