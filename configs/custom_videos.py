"""Classification of your own videos, a folder for each class. docs/get-started/custom-recordings.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_videos --data-root data/mine
"""

# A small transformer on tubelets of 2 frames and 16 x 16 pixels, five in time, of 112 x 112 pixels. Samples are not
# mirrored: a motion to the left and one to the right may be two classes.

_base_ = ["_base_/ucf101.py"]
data_root = "data/mine"
model = dict(
    modalities=dict(video=dict(class_at="auto", start=0)),
    backbone=dict(dim=192, depth=6, heads=3, drop_path=0.0, encoding=dict(type="PaPE", m=50)),
    head=dict(classes=None),  # as many as the data has
)

_frames = dict(type="SampleFrames", together=2, every=10, count=5)
_somewhere = dict(type="SampleFrames", together=2, every=10, count=5, start="random")
_crops = [dict(type="RandomResizedCrop", size=112, scale=(0.5, 1.0)), dict(type="RandAugment")]
_train = [_somewhere, dict(type="EachFrame", transforms=_crops), dict(type="PackVideo")]
_eval = [_frames, dict(type="EachFrame", transforms=[dict(type="EvalCrop", size=112)]), dict(type="PackVideo")]
train_dataloader = dict(batch_size=16, num_workers=2, dataset=dict(type="VideoFolder", transforms=_train))
val_dataloader = dict(num_workers=2, dataset=dict(type="VideoFolder", transforms=_eval))
test_dataloader = dict(num_workers=2, dataset=dict(type="VideoFolder", transforms=_eval))
optimizer = dict(lr=1e-3)
train_cfg = dict(max_epochs=50, amp=None, clip_grad=1.0)

_small_crop = [dict(type="RandomResizedCrop", size=64, scale=(0.5, 1.0))]
_small_train = [_somewhere, dict(type="EachFrame", transforms=_small_crop), dict(type="PackVideo")]
_small = [_frames, dict(type="EachFrame", transforms=[dict(type="EvalCrop", size=64)]), dict(type="PackVideo")]
versions = dict(
    _delete_=True,
    small=dict(
        model=dict(backbone=dict(dim=96, depth=4)),
        train_dataloader=dict(dataset=dict(transforms=_small_train)),
        val_dataloader=dict(dataset=dict(transforms=_small)),
        test_dataloader=dict(dataset=dict(transforms=_small)),
        train_cfg=dict(max_epochs=30),
    ),
)

_of_sample = dict(dataset=dict(type="UCF101"))
sample = dict(train_dataloader=_of_sample, val_dataloader=_of_sample, test_dataloader=_of_sample)
