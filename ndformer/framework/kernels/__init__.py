"""attend(): attention with a choice of backends (dense, flash, flex) that compute the same numbers."""

from ndformer.framework.kernels.choose import BACKENDS, attend

__all__ = ["BACKENDS", "attend"]
