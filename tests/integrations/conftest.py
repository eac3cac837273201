"""torchvision, which timm wants, comes from PyPI for torch with CUDA. Beside torch for CPUs its operators do not load,
and it cannot be imported because it describes two of them: here those are declared, and never called."""

import torch

LIBRARY = torch.library.Library("torchvision", "FRAGMENT")  # as long as the process is there

try:
    import torchvision  # noqa: F401  # pyright: ignore[reportMissingImports]
except ImportError:
    pass
except RuntimeError:
    for name in ("nms", "qnms"):
        LIBRARY.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
