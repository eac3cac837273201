_base_ = ["_base_/dvsgesture.py"]
model = dict(backbone=dict(encoding=dict(type="AxialRoPE", preset="pape_repo", axes=[2, 1, 0])))
