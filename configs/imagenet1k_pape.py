"""Classification of ImageNet-1K: ViT-B/16 with PaPE at 224 px, 300 epochs, as in the PaPE paper.
Cost: not run here.
Reaches: not measured.
Command: ndformer train imagenet1k_pape --data-root data/imagenet1k
"""

_base_ = ["_base_/imagenet1k.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
