"""The 24 images of coco_mini at their own ratios, in batches of mixed sizes. docs/how-to/any-size.md
Cost: 8.3 minutes on one thread of a machine that other runs shared, where coco_mini takes 5.1 to 6.7.
Reaches: 75.2 % mAP on its training images (1 seed; coco_mini there 71.9 and 71.3, 2 seeds).
Command: ndformer train coco_mini_native --data-root data/coco_mini
"""

_base_ = ["coco_mini.py"]
_same = dict(transforms=[dict(type="KeepAspect", longest=256, multiple_of=16), dict(type="PackBoxes")])
train_dataloader = dict(batch_tokens=1568, dataset=_same)  # of 8 squares of 224 pixels
val_dataloader = dict(dataset=_same)
test_dataloader = dict(dataset=_same)

_small = dict(transforms=[dict(type="KeepAspect", longest=96, multiple_of=8), dict(type="PackBoxes")])
sample = dict(
    train_dataloader=dict(batch_tokens=2304, dataset=_small),
    val_dataloader=dict(dataset=_small),
    test_dataloader=dict(dataset=_small),
)
