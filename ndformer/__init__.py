"""ndformer: transformers for tokens with positions, from images, point clouds, videos, events or your own data.

import ndformer

model = ndformer.load("work_dirs/mnist_pape/best.pth")              # a trained model
print(model("seven.png"))                                           # paths, images, arrays, tensors, or lists of them
network = ndformer.create("vit_small", encoding="PaPE(m=8)", classes=10)      # an nn.Module for your own training loop
"""

from typing import TYPE_CHECKING, Any

from ndformer import moved
from ndformer.version import __version__

if TYPE_CHECKING:
    from ndformer.framework.engine.load_model import load
    from ndformer.named import create

moved.install()

__all__ = ["__version__", "create", "load"]


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> Any:
    """Imported when they are asked for: `import ndformer` alone costs nothing."""
    if name == "load":
        from ndformer.framework.engine.load_model import load

        return load
    if name == "create":
        from ndformer.named import create

        return create
    raise AttributeError(f"module 'ndformer' has no attribute '{name}'")
