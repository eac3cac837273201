_base_ = ["_base_/gen1.py"]
model = dict(backbone=dict(encoding=dict(type="AxialRoPE", preset="pape_repo", axes=[2, 1, 0])))
