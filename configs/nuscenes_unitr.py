"""3-D detection on nuScenes: UniTR as published, with learned embeddings of places instead of PaPE.
Cost: not run here.
Reaches: not measured.
Command: ndformer train nuscenes_unitr --data-root data/nuscenes
"""

# Embeddings of places in windows, in whole cells, in the queries and keys of each layer.

_base_ = ["_base_/nuscenes.py"]
model = dict(
    backbone=dict(
        encoding=dict(type="LearnableMLP", norm="batch"),
        positions="cells",
        sensor_encodings=True,
        view_axis=True,
        checkpointing=False,
    )
)
