"""Classification of your own images, a folder per class, pretrained weights. docs/how-to/pretrained.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train imagefolder --data-root data/mine --weights FILE
"""

# The encoding is that of the weights, or the one of --encoding. Without pretrained weights, take imagefolder_pape.

_base_ = ["_base_/imagefolder.py"]
model = dict(backbone=dict(encoding=None))
