"""Generated films of lines of pieces that rest or move: one of eight lines, or the kind of the pieces, with PaPE.
Cost: 3.3 minutes on one CPU thread.
Reaches: 93.7 % on the line (one seed).
Command: ndformer train moving_pieces
"""

_base_ = ["_base_/pieces.py"]
model = dict(
    modalities=dict(video=dict(type="Tubelets", tubelet=(1, 8, 8), class_token=False)),
    backbone=dict(encoding=dict(type="PaPE", m=50, init_radius=[1, 2])),
)
dataset = dict(type="MovingPieces", transforms=[dict(type="PackVideo")])
