"""The data of an attention layer for the page: queries, keys and encoded bias terms."""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from ndformer.framework.attention_maps import AttentionMaps
from ndformer.lab.explorer.arrays import BITS, Blob, fixed
from ndformer.lab.explorer.forms import Budget, encode_bias, numbers

CLOSE, LOOSE = 2.5e-4, 5e-3  # allowed errors of logits from q and k, and from q and k before rotation


def layer_data(maps: AttentionMaps, tokens: Tensor, budget: Budget) -> tuple[dict[str, Any], str]:
    """Return the page's data of one row's attention maps, for `tokens` (N',), and its arrays as text."""
    vectors, blob = maps.vectors(), Blob()
    q, k, plain_q, plain_k = (numbers(values.float()[0][:, tokens]) for values in vectors[:4])  # (H, N', h)
    scale = maps.layer.head_dim**-0.5
    data: dict[str, Any] = dict(heads=maps.heads, scale=scale, semantic=_pair(blob, q, k, CLOSE / scale))
    if not (np.array_equal(q, plain_q) and np.array_equal(k, plain_k)):
        data["plain"] = _pair(blob, plain_q, plain_k, LOOSE / scale)
    parts = {} if vectors.bias is None else vectors.bias.parts()
    with torch.no_grad():
        data["terms"] = [
            dict(name=name) | encode_bias(part, maps.where, tokens, blob, budget) for name, part in parts.items()
        ]
    return data | dict(arrays=blob.headers), blob.text


def _pair(blob: Blob, q: np.ndarray, k: np.ndarray, max_error: float) -> list[int]:
    """Add q and k with as few bits as keep the error of their products within `max_error`."""
    for bits in BITS if q.size else ():
        pairs = zip(fixed(q, bits), fixed(k, bits), q, k)
        if max(np.abs(a @ b.T - exact_a @ exact_b.T).max() for a, b, exact_a, exact_b in pairs) <= max_error:
            return [blob.add_fixed(q, bits), blob.add_fixed(k, bits)]
    return [blob.add(q), blob.add(k)]
