_base_ = ["_base_/dvsgesture.py"]
model = dict(backbone=dict(encoding=dict(type="PaPERI", preset="pape_repo")))
# a class token at the origin begins with what is near the origin: the first events of a corner, with the paper's radius
sample = dict(model=dict(backbone=dict(encoding=dict(init_radius=8.0))))
