"""UCF101 as in the PaPE paper (appendix, Table 8): ViT-B on tubelets, joint space and time, from random weights.

Tubelets of 2 frames and 16 x 16 pixels, 5 a clip, each 10 frames after the one before, at the video's beginning.
Positions are (time, row, column) counted from 1, the class token stands at the origin, as in that repository; in the
small version it has no place. The first group of each class in the training list validates. The paper's figures are
means over the three folds, which tools/compare.py configs/ucf101_pape.py --folds 1 2 3 trains; one of them is
dataset.fold=2. Unlike there, pixels are normalized.
"""

_base_ = ["_transformer.py"]
data_root = "data/ucf101"
model = dict(
    modalities=dict(video=dict(type="Tubelets", tubelet=(2, 16, 16), class_at="origin", start=1)),
    backbone=dict(position_dims=3),
    head=dict(type="Classifier", classes=101),
)

_frames = dict(type="SampleFrames", together=2, every=10, count=5)
_size = dict(type="Resize", size=(240, 320))
_train = [
    _frames,
    dict(type="EachFrame", transforms=[dict(type="Flip"), dict(type="RandAugment"), _size]),
    dict(type="PackVideo"),
]
_eval = [_frames, dict(type="EachFrame", transforms=[_size]), dict(type="PackVideo")]
train_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="UCF101", transforms=_train))
val_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="UCF101", transforms=_eval))
test_dataloader = dict(batch_size=32, num_workers=8, dataset=dict(type="UCF101", transforms=_eval))

optimizer = dict(type="AdamW", lr=3e-5, betas=(0.9, 0.999), weight_decay=0.05)  # decay on all parameters
schedule = dict(type="WarmupCosine", warmup=0.1)
train_cfg = dict(max_epochs=200, amp="fp16")
metrics = [dict(type="Accuracy")]

_mirrored = [1, 0, 2, 3, 5, 4, 6, 7, 8, 9]  # what slides left slides right in a mirror
_small = [dict(type="EachFrame", transforms=[dict(type="Resize", size=(48, 64))]), dict(type="PackVideo")]
_small_train = [dict(type="FlipVideo", labels=_mirrored), *_small]
sample_data = "ucf101"
sample = dict(
    data_root="data/samples/ucf101",
    model=dict(
        modalities=dict(video=dict(tubelet=(2, 16, 16), class_at="nowhere", start=0)),
        backbone=dict(dim=96, depth=4, heads=4, drop_path=0.0),
        head=dict(classes=10),
    ),
    train_dataloader=dict(
        batch_size=16, num_workers=1, dataset=dict(transforms=[_frames, *_small_train], val_groups=3)
    ),
    val_dataloader=dict(num_workers=1, dataset=dict(transforms=[_frames, *_small], val_groups=3)),
    test_dataloader=dict(num_workers=1, dataset=dict(transforms=[_frames, *_small])),
    optimizer=dict(lr=1.5e-3),
    train_cfg=dict(max_epochs=34, amp=None, clip_grad=1.0),
)

# controls, whose accuracy should be lower: the frames in random order; one random frame in place of all
_without = lambda control: dict(
    train_dataloader=dict(dataset=dict(transforms=[_frames, control, *_train[1:]])),
    val_dataloader=dict(dataset=dict(transforms=[_frames, control, *_eval[1:]])),
    test_dataloader=dict(dataset=dict(transforms=[_frames, control, *_eval[1:]])),
    sample=dict(
        train_dataloader=dict(dataset=dict(transforms=[_frames, control, *_small_train])),
        val_dataloader=dict(dataset=dict(transforms=[_frames, control, *_small])),
        test_dataloader=dict(dataset=dict(transforms=[_frames, control, *_small])),
    ),
)
_origin = dict(sample=dict(model=dict(modalities=dict(video=dict(class_at="origin", start=1)))))
versions = dict(
    shuffled=_without(dict(type="ShuffleFrames")),
    still=_without(dict(type="StillFrame")),
    paper=_origin,  # the class token of the small version where the whole recipe has it
)
