"""ModelNet40 with Point Transformer V3's encoder, as the PaPE paper trains it (appendix, Table 8): published sizes,
augmentations, head and losses, and a position encoding instead of the published convolutional one (`cpe`).

Points and their order are those of modelnet40_plain.py, with normals as features. docs/get-started/point-clouds.md
says which of
the paper's open questions were answered how.
"""

# pyright: reportAttributeAccessIssue=false
_base_ = ["modelnet40_plain.py"]
model = dict(
    modalities=dict(points=dict(_delete_=True, type="Points")),
    backbone=dict(
        _delete_=True,
        type="PTv3",
        in_channels=6,
        grid_size=0.01,
        encoding=dict(type="NoPE"),
        enc_depths=(2, 2, 2, 6, 2),
        enc_channels=(32, 64, 128, 256, 512),
        enc_heads=(2, 4, 8, 16, 32),
        dec_depths=(),
        window=1024,
        drop_path=0.3,
        cpe="none",
    ),
    head=dict(hidden=(256, 128), dropout=0.5, lovasz=1.0),
)

_pack = dict(type="PackPoints", features=("points", "normals"))
_packed = lambda loader: dict(dataset=dict(transforms=[*loader.dataset.transforms[:-1], _pack]))
train_dataloader = _packed(_base_.train_dataloader)
val_dataloader = _packed(_base_.val_dataloader)
test_dataloader = _packed(_base_.test_dataloader)
versions = dict(
    pointcept=dict(
        param_groups=dict(lr_factors=dict(blocks=0.1)),
        schedule=dict(warmup=0.05, betas=(0.85, 0.95)),
    )
)

sample = dict(
    model=dict(
        _delete_=True,
        modalities=dict(points=dict(unit=0.25)),
        backbone=dict(
            grid_size=0.4,  # of the unit: 0.1
            enc_depths=(1, 2, 1),
            enc_channels=(32, 64, 128),
            enc_heads=(2, 4, 8),
            window=128,
            drop_path=0.0,
            cpe="xcpe",  # which learns faster, and minutes are few
        ),
        head=dict(classes=12, hidden=(), lovasz=0.0),
    ),
    train_dataloader=_packed(_base_.sample.train_dataloader),
    val_dataloader=_packed(_base_.sample.val_dataloader),
    test_dataloader=_packed(_base_.sample.test_dataloader),
    optimizer=dict(lr=3e-3),
)
