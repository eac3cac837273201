_base_ = ["_base_/imagenet1k.py"]
model = dict(backbone=dict(encoding=dict(type="PaPERI", preset="pape_repo")))
