"""Generated films of pieces that move in one of eight directions: the direction, or the kind of pieces, with PaPE.
Cost: 5 minutes on one CPU thread.
Reaches: chance, 12.5 %, on the direction (--encoding PaPE, batch 16, one seed): too hard in 8 epochs.
Command: ndformer train moving_pieces
"""

_base_ = ["_base_/pieces.py"]
model = dict(
    modalities=dict(video=dict(type="Tubelets", tubelet=(1, 8, 8), class_token=False)),
    backbone=dict(encoding=dict(type="PaPE", m=50, init_radius=[1, 2])),
)
dataset = dict(type="MovingPieces", transforms=[dict(type="PackVideo")])
