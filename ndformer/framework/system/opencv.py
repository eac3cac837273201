"""Imports of mmengine's hooks and visualizers, which import OpenCV, also where OpenCV does not load."""

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


def import_module(name: str) -> types.ModuleType:
    """Import a module; if OpenCV is missing, or cannot load because a server has no libGL, a placeholder stands in."""
    with host_state.importing(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = [*sys.path]
        try:
            return importlib.import_module(name)
        except ImportError:
            sys.path[:] = path  # a failed import leaves cv2's folder there, whose `typing` would shadow Python's
            if _loads("cv2"):
                raise
        sys.path[:] = path
        sys.modules["cv2"] = _NoOpenCV("cv2")
        try:
            return importlib.import_module(name)
        finally:
            del sys.modules["cv2"]  # so that other code that asks for cv2 gets an ImportError


def _loads(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True
