"""Imports from mmengine that work on any machine and print no warnings.

mmengine 0.10 imports OpenCV for drawing, which ndformer does not use. If OpenCV is missing, or cannot load because a
server has no libGL, a placeholder takes its place. runner.py overrides further defaults of mmengine.
"""

import importlib
import sys
import types
import warnings
from typing import Any

from ndformer.framework.system import host_state


class _NoOpenCV(types.ModuleType):
    __version__ = "none"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise ImportError(f"cv2.{name} needs OpenCV, which does not load here: pip install opencv-python-headless")


with host_state.importing(), warnings.catch_warnings():
    path = [*sys.path]
    try:
        importlib.import_module("cv2")
    except ImportError:
        sys.path[:] = path  # a failed import leaves cv2's folder there, whose `typing` would shadow Python's
        sys.modules["cv2"] = _NoOpenCV("cv2")
    warnings.simplefilter("ignore")
    from mmengine.logging import MMLogger
    from mmengine.model import revert_sync_batchnorm
    from mmengine.optim import OptimWrapper
    from mmengine.runner import EpochBasedTrainLoop, Runner
    from mmengine.visualization import Visualizer
if isinstance(sys.modules["cv2"], _NoOpenCV):
    del sys.modules["cv2"]  # so that other code that asks for cv2 gets an ImportError

__all__ = [
    "EpochBasedTrainLoop",
    "MMLogger",
    "OptimWrapper",
    "Runner",
    "Visualizer",
    "revert_sync_batchnorm",
]
