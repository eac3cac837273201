"""How many images a second the ImageNet training pipeline makes, on generated JPEGs of ImageNet's usual size.

tools/benchmark_loader.py
tools/benchmark_loader.py --workers 0 1 2 4 --images 512

Per worker process: torch and the image libraries are held to one thread each. Files are read once before, so that the
disk does not count.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.utils.data import DataLoader

from ndformer.framework.data import EpochSampler, collate
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.drawing import FIGURES, figures
from ndformer.modalities.image.transforms import Transforms

WIDTH, HEIGHT = 500, 375
STEPS: dict[str, list[dict[str, Any]]] = {
    "decode": [],
    "+ RandomResizedCrop": [dict(type="RandomResizedCrop", size=224)],
    "+ Flip": [dict(type="Flip")],
    "+ RandAugment": [dict(type="RandAugment")],
    "+ PackImage": [dict(type="PackImage")],
}
