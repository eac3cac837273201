"""The spconv backend: only CUDA builds, and only for tensors on a GPU."""

import importlib
import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ndformer.framework.sparse.sites import Sites

CPU_BUILD = (
    "spconv must be a CUDA build, got its CPU build (pip's 'spconv'), whose convolution is wrong with more than one "
    "thread. Uninstall it and use backend 'torch', or on a GPU install pip's 'spconv-cu126'"
)


@cache
def build() -> tuple[Any, str]:
    """Return spconv.pytorch, or None with the reason why it cannot be used."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pytorch = importlib.import_module("spconv.pytorch")
            cpu_only = importlib.import_module("spconv.cppconstants").CPU_ONLY_BUILD
    except ImportError as error:
        return None, f"spconv cannot be imported ({error}). Use backend 'torch'"
    return (None, CPU_BUILD) if cpu_only else (pytorch, "")


def chosen(backend: str, device: torch.device) -> bool:
    """Return whether to use spconv."""
    if backend == "spconv":
        if device.type != "cuda":
            raise RuntimeError(f"backend 'spconv' requires tensors on a GPU, got {device.type}. Use 'torch'")
        if build()[0] is None:
            raise ImportError(build()[1])
        return True
    return backend == "auto" and device.type == "cuda" and build()[0] is not None


def convolve(x: Tensor, weight: Tensor, sites: Sites) -> Tensor:
    """Return (V, D) from x (V, C) and weight (D, k, k, k, C); spconv caches pairs per kernel size."""
    if "tensor" not in sites.cache:
        axes = [axis - low for axis, low in zip(sites.grid.unbind(1), sites.extent.low)]
        voxels = torch.stack([sites.sample, *axes], dim=1)[sites.first].int()
        sites.cache["tensor"] = build()[0].SparseConvTensor(x.detach(), voxels, sites.shape, sites.extent.samples)
    tensor = sites.cache["tensor"].replace_feature(x)
    layer = template(weight.shape[4], weight.shape[0], weight.shape[1])
    return torch.func.functional_call(layer, {"weight": weight}, (tensor,)).features


@cache
def template(dim: int, out_dim: int, kernel: int) -> Any:
    """Return a layer of spconv to call with our weights."""
    return build()[0].SubMConv3d(dim, out_dim, kernel, bias=False, indice_key=f"k{kernel}")
