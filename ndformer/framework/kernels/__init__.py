"""attend(): one attention call, several ways to compute it, the same numbers from each."""

from ndformer.framework.kernels.choose import BACKENDS, attend

__all__ = ["BACKENDS", "attend"]
