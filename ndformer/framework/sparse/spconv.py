"""spconv as a backend: only its CUDA builds, and only for tensors on a GPU."""

import importlib
import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.sparse.sites import Sites

CPU_BUILD = (
    "the spconv installed here is its CPU build (pip's 'spconv'), whose convolution gives wrong numbers with more than "
    "one thread: uninstall it; backend 'torch' needs none, and on a GPU pip's 'spconv-cu126' is the build to take"
)


@cache
def build() -> tuple[Any, str]:
    """spconv.pytorch, or None and why it cannot be used."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytorch = importlib.import_module("spconv.pytorch")
            cpu_only = importlib.import_module("spconv.cppconstants").CPU_ONLY_BUILD
    except ImportError as error:
        return None, f"spconv does not import ({error}): backend 'torch' needs nothing"
    return (None, CPU_BUILD) if cpu_only else (pytorch, "")


def chosen(backend: str, device: torch.device) -> bool:
    """Whether spconv is to compute."""
    if backend == "spconv":
        if device.type != "cuda":
            raise RuntimeError(f"backend 'spconv' computes on a GPU, the tensors are on {device.type}: take 'torch'")
        if build()[0] is None:
            raise ImportError(build()[1])
        return True
    return backend == "auto" and device.type == "cuda" and build()[0] is not None


def convolve(x: Tensor, weight: Tensor, sites: Sites) -> Tensor:
    """x (V, C), weight (D, k, k, k, C) -> (V, D); spconv keeps its pairs for the layers of one kernel size."""
    if "tensor" not in sites.cache:
        axes = [axis - low for axis, low in zip(sites.grid.unbind(1), sites.extent.low)]
        voxels = torch.stack([sites.sample, *axes], dim=1)[sites.first].int()
        sites.cache["tensor"] = build()[0].SparseConvTensor(x.detach(), voxels, sites.shape, sites.extent.samples)
    tensor = sites.cache["tensor"].replace_feature(x)
    layer = bare(weight.shape[4], weight.shape[0], weight.shape[1])
    return torch.func.functional_call(layer, {"weight": weight}, (tensor,)).features


@cache
def bare(dim: int, out_dim: int, kernel: int) -> Any:
    """A layer of spconv's to be called with weights of ours."""
    return build()[0].SubMConv3d(dim, out_dim, kernel, bias=False, indice_key=f"k{kernel}")
