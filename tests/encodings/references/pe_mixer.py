"""PEMixer: the ten strategies of ViTARC's PEmixer."""

import math
from typing import Any

import torch
from torch import Tensor

from tests.encodings.references.base import Reference
from tests.encodings.references.sincos import sincos


class PEMixer(Reference):
    """Of tokens with the first one's embedding, and the second one's; both are Sincos, or there is no first."""

    def embed(self, x: Tensor) -> Tensor:
        scales = [cfg.get("position_scale", 1.0) for cfg in self.parts()]
        own, e = (sincos(self.r * s, self.dim, lambda w, p, s=s: self.turns(w * s, p) / s) for s in scales)
        y = x + own if "first" in self.cfg else x
        return torch.where(self.placed[:, None], self.mixed(y, e), x)

    def parts(self) -> list[dict[str, float]]:
        return [self.cfg.get(name, {}) for name in ("first", "second")]

    def mixed(self, x: Tensor, e: Tensor) -> Tensor:
        strategy, mix = self.cfg["strategy"], "shared.mix."
        w = {name.removeprefix(mix): p for name, p in self.weights.items() if name.startswith(mix)}
        ux, ue = (t / (t * t).sum(1, keepdim=True).sqrt() for t in (x, e))
        if strategy == "default":
            return x + e
        if strategy == "hardcoded_normalization":
            return ux + ue
        if strategy.startswith("learnable_scaling"):
            return x + w["scale"] * e
        if strategy.startswith("weighted_sum_no_norm"):
            return w["of_token"] * x + w["of_position"] * e
        if strategy.startswith("weighted_sum"):
            return w["of_token"] * ux + w["of_position"] * ue
        if strategy == "layer_norm":
            s = x + e
            centered = s - s.mean(1, keepdim=True)
            normed = centered / ((centered * centered).mean(1, keepdim=True) + 1e-5).sqrt()
            return normed * w["norm.weight"] + w["norm.bias"]
        assert strategy == "positional_attention"
        heads = self.cfg.get("attention_heads", 8)
        D, h = self.dim, self.dim // heads
        q, k, v = (
            t @ w["qkv.weight"][i * D : (i + 1) * D].T + w["qkv.bias"][i * D : (i + 1) * D]
            for i, t in enumerate((x, e, e))
        )
        seen = []
        for head in range(heads):
            c = slice(head * h, (head + 1) * h)
            logits = (q[:, c] @ k[:, c].T / math.sqrt(h)).masked_fill(~self.placed[None, :], -torch.inf)
            logits = torch.where(self.placed[:, None], logits, 0.0)  # what has no place looks nowhere: it stays
            seen.append(logits.softmax(1) @ v[:, c])
        return x + torch.cat(seen, dim=1) @ w["proj.weight"].T + w["proj.bias"]


STRATEGIES = "hardcoded_normalization", "learnable_scaling", "weighted_sum_no_norm_vec", "layer_norm"
CASES: dict[str, dict[str, Any]] = {
    **{f"PEMixer-{strategy}": dict(type="PEMixer", strategy=strategy) for strategy in STRATEGIES},
    "PEMixer-positional_attention": dict(type="PEMixer", strategy="positional_attention", attention_heads=3),
    "PEMixer-two": dict(
        type="PEMixer",
        strategy="weighted_sum_vec",
        first=dict(type="Sincos"),
        second=dict(type="Sincos", position_scale=0.5),
    ),
}
