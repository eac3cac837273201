"""attend(): one attention call, several ways to compute it (dense, flash, flex), the same numbers from each."""

from ndformer.framework.kernels.choose import BACKENDS, attend

__all__ = ["BACKENDS", "attend"]
