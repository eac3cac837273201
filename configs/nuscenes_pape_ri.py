_base_ = ["_base_/nuscenes.py"]
model = dict(backbone=dict(encoding=dict(type="PaPERI", preset="pape_repo")))
