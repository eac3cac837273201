"""Classification of your own images, a folder for each class: ViT-S/16 with PaPE. docs/get-started/custom-photos.md
Cost: not run here.
Reaches: not measured.
Command: ndformer train imagefolder_pape --data-root data/mine
"""

_base_ = ["_base_/imagefolder.py"]
model = dict(backbone=dict(encoding=dict(type="PaPE", m=50)))
