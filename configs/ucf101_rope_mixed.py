_base_ = ["_base_/ucf101.py"]
model = dict(backbone=dict(encoding=dict(type="RoPEMixed", preset="pape_repo")))
