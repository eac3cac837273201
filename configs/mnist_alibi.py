_base_ = ["_base_/mnist.py"]
model = dict(backbone=dict(encoding=dict(type="ALiBi")))
