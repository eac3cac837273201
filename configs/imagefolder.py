"""Your own images, one folder per class, in a ViT with pretrained weights: --weights FILE (docs/how-to/pretrained.md).

Its encoding is that of the weights, or the one of --encoding. To learn from your images alone, take imagefolder_pape.
"""

_base_ = ["_base_/imagefolder.py"]
model = dict(backbone=dict(encoding=None))
