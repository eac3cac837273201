_base_ = ["_base_/dvsgesture.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
# a class token at the origin begins with what is near the origin: the first events of a corner, with the paper's radius
sample = dict(model=dict(backbone=dict(encoding=dict(init_radius=8.0))))
