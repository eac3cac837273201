"""Generated event recordings of lines of pieces that flash in place or move: one of eight lines, or the kind of pieces.
Cost: 1.4 minutes on one CPU thread.
Reaches: not measured; with an earlier generator, whose noise showed motion, 85.5 % on the line (one seed).
Command: ndformer train moving_events
"""

_base_ = ["_base_/pieces.py"]
_spikes = dict(type="PackSpikes", threshold=16, refractory=10_000, patch=8, bins=4)
model = dict(
    modalities=dict(events=dict(type="SpikingPatches", patch=8, bins=4, time_unit=20_000, class_token=False)),
    backbone=dict(encoding=dict(type="PaPE", m=50, init_radius=[1, 2])),
)
dataset = dict(type="MovingEvents", transforms=[_spikes], cache="memory")
