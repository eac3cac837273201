_base_ = ["_base_/gen1.py"]
model = dict(backbone=dict(encoding=dict(type="LookHere", preset="pape_repo")))
