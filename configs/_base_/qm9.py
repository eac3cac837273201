"""QM9, 110,000 molecules for training: a token for each atom, positions in Angstrom, one target.

With rotation augmentation, since most encodings are not invariant to rotations; `preset="upright"` is without. Other
targets are set by `dataset.targets`, and `model.head.readout` is `sum` for those that grow with the molecule;
`preset="all"` is an example with all twelve, and `preset="moments"` of targets that are moments of predicted charges.
"""

_base_ = ["_transformer.py"]
data_root = "data/qm9"
model = dict(
    modalities=dict(molecules=dict(type="Atoms")),
    backbone=dict(dim=256, depth=8, heads=8, drop_path=0.0, position_dims=3),
    head=dict(type="Regressor", classes=None, readout="mean"),
)

_train = [dict(type="RotateAtoms"), dict(type="PackAtoms")]
_eval = [dict(type="PackAtoms")]
dataset = dict(type="QM9", targets=["gap (meV)"])
train_dataloader = dict(batch_size=128, num_workers=4, dataset=dict(transforms=_train))
val_dataloader = dict(batch_size=256, num_workers=4, dataset=dict(transforms=_eval))
test_dataloader = dict(batch_size=256, num_workers=4, dataset=dict(transforms=_eval))

optimizer = dict(type="AdamW", lr=5e-4, weight_decay=0.01)
param_groups = dict(no_decay=True)
schedule = dict(type="WarmupCosine", warmup=0.02)
train_cfg = dict(max_epochs=300, clip_grad=1.0)
ema = dict(decay=0.999)
metrics = [dict(type="RegressionError")]

_all = [
    "mu (D)",
    "alpha (a0^3)",
    "HOMO (meV)",
    "LUMO (meV)",
    "gap (meV)",
    "R2 (a0^2)",
    "ZPVE (meV)",
    "U0 (meV)",
    "U (meV)",
    "H (meV)",
    "G (meV)",
    "Cv (cal/mol/K)",
]
_moments = ["mu (D)", "alpha (a0^3)", "anisotropy (a0^3)", "R2 (a0^2)"]
_readouts = ["mean", "sum", "mean", "mean", "mean", "sum", "sum", "sum", "sum", "sum", "sum", "sum"]
versions = dict(
    upright=dict(train_dataloader=dict(dataset=dict(transforms=_eval))),
    all=dict(
        dataset=dict(targets=_all),
        model=dict(head=dict(readout=_readouts)),
    ),
    moments=dict(  # of charges at the positions of atoms
        dataset=dict(targets=_moments),
        model=dict(head=dict(type="TensorRegressor", readout=["dipole", "sum", "anisotropy", "extent"])),
    ),
)

sample_data = "qm9"
sample = dict(
    data_root="data/samples/qm9",
    dataset=dict(train=1600, val=200),
    model=dict(backbone=dict(dim=64, depth=3, heads=4)),
    train_dataloader=dict(batch_size=32, num_workers=0),
    val_dataloader=dict(num_workers=0),
    test_dataloader=dict(num_workers=0),
    optimizer=dict(lr=1e-3),
    ema=None,
    train_cfg=dict(max_epochs=20),
)
