"""Regression of properties of your own molecules: files and a table of targets. docs/get-started/molecules.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train custom_molecules --data-root data/mine
"""

# data/mine/targets.csv names the files and their targets. For a target that grows with the molecule, such as an energy,
# model.head.readout is "sum".

_base_ = ["_base_/qm9.py"]
data_root = "data/mine"
model = dict(backbone=dict(dim=128, depth=6, heads=4, encoding=dict(type="PaPERI")))
dataset = dict(_delete_=True, type="MoleculeFolder")
train_dataloader = dict(num_workers=2, batch_size=64)
train_cfg = dict(max_epochs=100)
ema = None  # an average over a thousand steps lags behind in the few steps of a small folder
versions = dict(_delete_=True, small=dict(model=dict(backbone=dict(dim=96, depth=3)), train_cfg=dict(max_epochs=30)))
sample = dict(dataset=dict(type="QM9", train=1600, val=200))
