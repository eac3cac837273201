"""Generated clouds of pieces on one of eight solids: the solid, or the kind of pieces, with PaPE.
Cost: 3.4 minutes on one CPU thread.
Reaches: not measured; with an earlier generator, whose pieces overlapped, 12.5 and 45 % on the solid, Sincos 99.9 %.
Command: ndformer train solid_pieces
"""

_base_ = ["_base_/pieces.py"]
model = dict(
    modalities=dict(points=dict(type="PointPatches", centers=32, neighbors=16, features=0, unit=0.3)),
    backbone=dict(encoding=dict(type="PaPE", m=50)),
)
dataset = dict(type="SolidPieces", transforms=[dict(type="PackPoints", features=[])], cache="memory")
