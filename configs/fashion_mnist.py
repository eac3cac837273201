"""Fashion-MNIST: 54,000 images of 28 x 28 to learn from, 4 blocks of width 64, mean of the tokens, 6 epochs."""

_base_ = ["_base_/mnist.py"]
data_root = "data/fashion_mnist"
model = dict(
    modalities=dict(image=dict(class_token=False)),
    backbone=dict(dim=64, depth=4, drop_path=0.0, encoding=dict(type="PaPE", m=50, init_radius="spread")),
    head=dict(pool="mean"),
)
_train = [dict(type="RandomCrop", size=28, padding=2), dict(type="Flip"), dict(type="PackImage")]
train_dataloader = dict(num_workers=0, dataset=dict(transforms=_train))
val_dataloader = dict(num_workers=0)
test_dataloader = dict(num_workers=0)
optimizer = dict(lr=2e-3)
schedule = dict(warmup=0.1)
train_cfg = dict(max_epochs=6, clip_grad=1.0)
sample = dict(model=dict(backbone=dict(dim=64)), train_cfg=dict(max_epochs=6))
