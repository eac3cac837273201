"""3-D detection on nuScenes with cameras and LiDAR: UniTR with PaPE, 10 epochs, as in the PaPE paper.
Cost: not run here; --sample: 7.2 minutes on two CPU threads.
Reaches: not measured; --sample: 62.0 ± 9.9 % mAP (3 seeds).
Command: ndformer train nuscenes_pape --data-root data/nuscenes
"""

_base_ = ["_base_/nuscenes.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
