"""Your own masks: images with a png of classes beside each. docs/custom-segmentation.md"""

_base_ = ["_base_/ade20k.py"]
data_root = "data/mine"
model = dict(
    backbone=dict(dim=192, heads=3, drop_path=0.0, encoding=dict(type="PaPE", m=50)),
    head=dict(classes=None),  # as many as the data has
)
train_dataloader = dict(num_workers=4, dataset=dict(zero_is_nothing=False, holdout=0.1))
val_dataloader = dict(num_workers=4, dataset=dict(zero_is_nothing=False, holdout=0.1))
test_dataloader = dict(num_workers=4, dataset=dict(zero_is_nothing=False))
train_cfg = dict(max_epochs=100)
sample = dict(
    train_dataloader=dict(dataset=dict(zero_is_nothing=True)),
    val_dataloader=dict(dataset=dict(zero_is_nothing=True)),
    test_dataloader=dict(dataset=dict(zero_is_nothing=True)),
)
