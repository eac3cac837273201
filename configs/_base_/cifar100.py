"""CIFAR-100, in every other way as CIFAR-10."""

_base_ = ["cifar10.py"]
data_root = "data/cifar100"
model = dict(head=dict(classes=100))
train_dataloader = dict(dataset=dict(type="CIFAR100"))
val_dataloader = dict(dataset=dict(type="CIFAR100"))
test_dataloader = dict(dataset=dict(type="CIFAR100"))
sample_data = "cifar100"
sample = dict(data_root="data/samples/cifar100")
