"""UniTR as published: embeddings learnt of places in windows, in whole cells, in each layer's queries and keys."""

_base_ = ["_base_/nuscenes.py"]
model = dict(
    backbone=dict(
        encoding=dict(type="LearnableMLP", norm="batch"),
        told="cells",
        keep_own=True,
        view_axis=True,
        checkpointing=False,
    )
)
