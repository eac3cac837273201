"""ImageNet-1K as in the PaPE paper (appendix, Table 8): ViT-B/16 at 224 px, 300 epochs, augmented as in imagefolder.py.

The class token stands at the origin and patches are counted from 1, as in that repository; in the small version its
place is the best one for the encoding. 1 % of train validates; the official validation images are the test set. The
batch of 1024 is for one device: with less memory, a smaller batch_size and train_cfg.accumulate make the same step.
"""

_base_ = ["imagefolder.py"]
data_root = "data/imagenet1k"
model = dict(
    modalities=dict(image=dict(class_at="origin", start=1)),
    backbone=dict(dim=768, heads=12),
    head=dict(classes=1000),
)
train_dataloader = dict(batch_size=1024, num_workers=16, dataset=dict(type="ImageNet", holdout=0.01))
val_dataloader = dict(num_workers=16, dataset=dict(type="ImageNet", holdout=0.01))
test_dataloader = dict(num_workers=16, dataset=dict(type="ImageNet"))
optimizer = dict(lr=6e-4, betas=(0.9, 0.999), weight_decay=0.05)  # decay on all parameters
schedule = dict(warmup=15 / 300)
train_cfg = dict(max_epochs=300, amp="fp16")
sample_data = "imagenet1k"
sample = dict(
    data_root="data/samples/imagenet1k",
    model=dict(modalities=dict(image=dict(class_at="auto", start=0)), head=dict(classes=10)),
    train_dataloader=dict(dataset=dict(holdout=0.1)),
    val_dataloader=dict(dataset=dict(holdout=0.1)),
    train_cfg=dict(amp=None),
)

_origin = dict(sample=dict(model=dict(modalities=dict(image=dict(class_at="origin", start=1)))))
versions = dict(paper=_origin)  # the class token of the small version where the whole recipe has it
