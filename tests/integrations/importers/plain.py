"""A vision transformer in plain torch, which uses other projects' weights by their names."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

State = dict[str, Tensor]
Turn = Callable[[Tensor, int], Tensor]  # q or k (B, H, N, h) of a layer


class Names(NamedTuple):
    block: str = "blocks.{}."
    qkv: str = "attn.qkv"
    proj: str = "attn.proj"
    up: str = "mlp.fc1"
    down: str = "mlp.fc2"
    scales: tuple[str, ...] = ()


TIMM = Names()


def weights(dim: int, depth: int, names: Names = TIMM, bias: bool = True, seed: int = 0) -> State:
    """Return random weights of blocks."""
    s: State = {}
    for i in range(depth):
        at = names.block.format(i)
        for norm in ("norm1", "norm2"):
            s[f"{at}{norm}.weight"], s[f"{at}{norm}.bias"] = torch.empty(dim), torch.empty(dim)
        for name, shape in ((names.qkv, (3 * dim, dim)), (names.proj, (dim, dim))):
            s[f"{at}{name}.weight"] = torch.empty(shape)
        s[f"{at}{names.up}.weight"], s[f"{at}{names.down}.weight"] = (
            torch.empty(3 * dim, dim),
            torch.empty(dim, 3 * dim),
        )
        for name in (names.qkv, names.proj, names.up, names.down)[0 if bias else 1 :]:
            s[f"{at}{name}.bias"] = torch.empty(len(s[f"{at}{name}.weight"]))
        for name in names.scales:
            s[at + name] = torch.empty(dim)
    return drawn(s, seed)


def drawn(s: State, seed: int) -> State:
    random = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(value.shape, generator=random) * (0.15 if value.dim() > 1 else 0.3) + ("norm" in name)
        for name, value in s.items()
    }


def norm(s: State, name: str, x: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], s[f"{name}.weight"], s[f"{name}.bias"], eps)


def blocks(
    s: State,
    x: Tensor,
    heads: int,
    eps: float,
    names: Names = TIMM,
    turn: Turn | None = None,
    bias: Callable[[Tensor, int], Any] | None = None,
) -> Tensor:
    """Run tokens (B, N, D) through all blocks; `bias` returns an addend of the logits from the normed tokens."""
    depth = (
        max(
            int(name.split(".")[names.block.split(".").index("{}")])
            for name in s
            if name.startswith(names.block.split("{")[0])
        )
        + 1
    )
    B, N, D = x.shape
    for i in range(depth):
        at = names.block.format(i)
        y = norm(s, f"{at}norm1", x, eps)
        qkv = F.linear(y, s[f"{at}{names.qkv}.weight"], s.get(f"{at}{names.qkv}.bias"))
        q, k, v = qkv.view(B, N, 3, heads, D // heads).permute(2, 0, 3, 1, 4)
        if turn is not None:
            q, k = turn(q, i), turn(k, i)
        logits = q @ k.transpose(-1, -2) / math.sqrt(D // heads)
        if bias is not None:
            logits = logits + bias(y, i)
        y = (logits.softmax(-1) @ v).transpose(1, 2).reshape(B, N, D)
        y = F.linear(y, s[f"{at}{names.proj}.weight"], s[f"{at}{names.proj}.bias"])
        x = x + (s[at + names.scales[0]] * y if names.scales else y)
        y = F.gelu(F.linear(norm(s, f"{at}norm2", x, eps), s[f"{at}{names.up}.weight"], s[f"{at}{names.up}.bias"]))
        y = F.linear(y, s[f"{at}{names.down}.weight"], s[f"{at}{names.down}.bias"])
        x = x + (s[at + names.scales[1]] * y if names.scales else y)
    return x
