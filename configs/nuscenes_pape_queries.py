"""nuscenes_pape whose --sample has the published head, TransFusion's queries, not a box in every cell.
Cost: not run here.
Reaches: not measured.
Command: ndformer train nuscenes_pape_queries --data-root data/nuscenes
"""

_base_ = ["nuscenes_pape.py"]
_plane = dict(low=(-32.0, -32.0), high=(32.0, 32.0), cell=0.8)
sample = dict(
    model=dict(
        head=dict(
            _delete_=True,
            type="TransFusion",
            classes=10,
            sharp=(8, 9),
            neck=dict(type="BirdsEyeNet", blocks=(1, 1, 1), strides=(1, 2, 2), widths=(48, 64, 64), stride=1, up=32,
                      patches=True, norm_momentum=0.1, **_plane),
            width=64,
            heads=4,
            hidden=128,
            queries=60,
            radius=8,
        )
    )
)  # fmt: skip
