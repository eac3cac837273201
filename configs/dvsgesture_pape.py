_base_ = ["_base_/dvsgesture.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
