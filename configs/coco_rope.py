_base_ = ["_base_/coco.py"]
model = dict(backbone=dict(encoding=dict(type="AxialRoPE", preset="pape_repo")))
