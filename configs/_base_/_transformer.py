"""No recipe, but what most of them begin with: a plain transformer of ViT-B's size, and the three splits of a dataset.

Its encoding is for the configs to choose.
"""

model = dict(
    type="TokenModel",
    backbone=dict(
        type="Transformer",
        dim=768,
        depth=12,
        heads=12,
        encoding=dict(type="NoPE"),
        drop_path=0.1,
        initial_norm=True,
    ),
)
train_dataloader = dict(dataset=dict(split="train"))
val_dataloader = dict(dataset=dict(split="val"))
test_dataloader = dict(dataset=dict(split="test"))
