"""TokenModel: modality -> backbone -> head, one class for every task."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn

from ndformer.framework.engine.compat import BaseModel
from ndformer.framework.registry import BACKBONES, HEADS, MODALITIES, MODELS, TRANSFORMS, nearest
from ndformer.framework.tokens import TokenSet, join


@MODELS.register_module()
class TokenModel(BaseModel):
    """Inputs by modality become token sets, joined where there are several; the backbone lets them attend; the head
    answers. `mix` changes training batches (MixUp, CutMix) before they become tokens."""

    def __init__(
        self,
        modalities: dict[str, dict[str, Any]],
        backbone: dict[str, Any],
        head: dict[str, Any],
        mix: dict[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.backbone = BACKBONES.create(backbone)
        dim = self.backbone.dim
        self.modalities = nn.ModuleDict({name: MODALITIES.create(cfg, dim=dim) for name, cfg in modalities.items()})
        self.head = HEADS.create(head, dim=dim)
        self.mix = None if mix is None else TRANSFORMS.create(mix)
        self.amp: torch.dtype | None = None  # what evaluation computes in, as training does; set by the engine

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        inputs: dict[str, Any],
        data_samples: list[dict[str, Any]] | None = None,
        mode: Literal["loss", "predict", "tensor"] = "tensor",
    ) -> Any:
        if mode == "loss":
            targets = self.head.targets(data_samples, next(self.parameters()).device)
            if self.mix is not None:
                inputs, targets = self.mix(inputs, targets)
            return self.head.loss(self.backbone(self.tokens(inputs)), targets)
        with torch.autocast(next(self.parameters()).device.type, self.amp, enabled=self.amp is not None):
            tokens = self.backbone(self.tokens(inputs))
            return tokens if mode == "tensor" else self.head.predict(tokens, data_samples)

    def tokens(self, inputs: dict[str, Tensor | list[Tensor]]) -> TokenSet:
        """All modalities of a batch as one token set."""
        for name in inputs:
            if name not in self.modalities:
                known = ", ".join(self.modalities)
                raise KeyError(f"the model has no modality '{name}'{nearest(name, self.modalities)} It has: {known}")
        sets = [self.modalities[name](value) for name, value in inputs.items()]
        return sets[0] if len(sets) == 1 else join(*sets)
