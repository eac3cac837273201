"""Regression of the HOMO-LUMO gap on QM9: 8 blocks of width 256 with PaPE, 300 epochs.
Cost: not run here; --sample: a minute on one CPU core.
Reaches: not measured.
Command: ndformer train qm9_pape --data-root data/qm9
"""

_base_ = ["_base_/qm9.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
