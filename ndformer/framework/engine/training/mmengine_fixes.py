"""mmengine with today's torch, on any machine: every trap of it that we know of is dealt with here or where it says.

- mmengine 0.10 imports OpenCV at start-up, for drawing that we do not use. Where OpenCV is missing, or cannot load
  because a server has no libGL, a placeholder stands in, which says so if anything ever calls it.
- Its Runner prints some 190 lines about the machine before the first training line, warns about its own classes, and
  installs a pickling checkpoint hook; its AMP wrapper refuses CPUs and scales bf16 losses: engine/training/runner.py
  does none of that.
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
        sys.path[:] = path  # it leaves its folder there, whose `typing` would be that of every process we start
        sys.modules["cv2"] = _NoOpenCV("cv2")
    warnings.simplefilter("ignore")
    from mmengine.logging import MMLogger
    from mmengine.model import revert_sync_batchnorm
    from mmengine.optim import OptimWrapper
    from mmengine.runner import EpochBasedTrainLoop, Runner
    from mmengine.visualization import Visualizer
if isinstance(sys.modules["cv2"], _NoOpenCV):
    del sys.modules["cv2"]  # for others, who ask whether it is there, it is not

__all__ = [
    "EpochBasedTrainLoop",
    "MMLogger",
    "OptimWrapper",
    "Runner",
    "Visualizer",
    "revert_sync_batchnorm",
]
