"""Replace the position encoding of a ViT or DINOv2 of Hugging Face (tested with transformers 5.23).

model = ViTForImageClassification.from_pretrained("google/vit-base-patch16-224")
model = with_encoding(model, "PaPE(m=50)")       # then fine-tune: weights of the encoding are new
"""

import functools
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.adapter import ClassPosition
from ndformer.integrations.hosting import Hosted, Named, Place, Positions, check_dropout


def with_encoding(model: Any, encoding: Named, keep_table: bool = False, class_at: ClassPosition = "auto") -> Any:
    """Replace the position encoding of a model, with or without a head, in place and return it.

    The learned position table is removed unless `keep_table`; other weights keep their names. Without the table the
    model accepts any image size divisible by the patch size; with it, other sizes need interpolate_pos_encoding=True.

    `class_at` is the position of class token and registers, as in ndformer's models: 'auto' is the middle of the
    patches ('center') for PaPE and PaPECompact and no position ('nowhere') for other encodings and with
    `periods`; 'origin' is 0.

    Encodings of values and outputs (GTA) work as in ndformer's models. Patches have no cameras, so the camera channels
    of GTA and PRoPE have no position. `periods` are counted in patches: [None, 14] for a panorama of 14 columns.
    """
    from transformers.models.dinov2 import modeling_dinov2 as dinov2  # pyright: ignore[reportMissingImports]
    from transformers.models.dinov2_with_registers import (  # pyright: ignore[reportMissingImports]
        modeling_dinov2_with_registers as registers,
    )
    from transformers.models.vit import modeling_vit as vit  # pyright: ignore[reportMissingImports]

    layer_types = (vit.ViTLayer, dinov2.Dinov2Layer, registers.Dinov2WithRegistersLayer)
    tables = (vit.ViTEmbeddings, dinov2.Dinov2Embeddings, registers.Dinov2WithRegistersEmbeddings)
    layers: list[Any] = [part for part in model.modules() if isinstance(part, layer_types)]
    matches = [(name, part) for name, part in model.named_modules() if isinstance(part, tables)]
    if not layers or len(matches) != 1:
        raise TypeError(
            f"with_encoding requires a ViT or DINOv2 of transformers, got {type(model).__name__} with {len(layers)} "
            f"supported layers and {len(matches)} supported embeddings"
        )
    name, embeddings = matches[0]
    first, depth = layers[0].attention, len(layers)
    check_dropout(first.attention_dropout)
    parts = dict(embeddings.named_parameters(recurse=False))
    prefix = 1 + (parts["register_tokens"].shape[1] if "register_tokens" in parts else 0)
    positions = Positions(encoding, first.q_proj.in_features, first.num_attention_heads, depth, prefix, class_at)
    for i, layer in enumerate(layers):
        layer.attention = _Attention(layer.attention, positions.encoding.layer(i, depth), positions.place)
    placed = embeddings if keep_table else _Embeddings(embeddings, parts)
    model.set_submodule(name, placed)
    model.position_encoding = positions.to(first.q_proj.weight.device)
    placed.register_forward_hook(functools.partial(_enter, positions), with_kwargs=True)
    positions.register_block_updates(layers)
    return model


def _enter(positions: Positions, embeddings: Any, args: Any, kwargs: Any, x: Tensor) -> Tensor:
    pixels = args[0] if args else kwargs["pixel_values"]
    rows, columns = (side // patch for side, patch in zip(pixels.shape[-2:], embeddings.patch_embeddings.patch_size))
    positions.enter(rows, columns, x.device)
    return positions.embed(x)


class _Embeddings(nn.Module):
    """Embeddings of class token, registers and patches without a position table, with the same parameter names."""

    def __init__(self, host: Any, parts: dict[str, nn.Parameter]) -> None:
        super().__init__()
        self.patch_embeddings, self.dropout, self.cls_token = host.patch_embeddings, host.dropout, host.cls_token
        self.mask_token, self.register_tokens = parts.get("mask_token"), parts.get("register_tokens")

    def forward(
        self, pixel_values: Tensor, bool_masked_pos: Tensor | None = None, interpolate_pos_encoding: bool | None = None
    ) -> Tensor:
        """Return (B, 1 + registers + patches, dim); `interpolate_pos_encoding` has no effect."""
        x = self.patch_embeddings(pixel_values)
        if bool_masked_pos is not None:
            if self.mask_token is None:
                raise ValueError("bool_masked_pos requires a mask token. Create the model with use_mask_token=True")
            x = torch.where(bool_masked_pos.bool()[..., None], self.mask_token.flatten().to(x.dtype), x)
        before = [token for token in (self.cls_token, self.register_tokens) if token is not None]
        return self.dropout(torch.cat([*(token.expand(len(x), -1, -1) for token in before), x], dim=1))


class _Attention(Hosted):
    """Attention with the same parameter names; it returns no attention weights, which are never materialized."""

    def __init__(self, host: Any, encoding: Any, place: Place) -> None:
        super().__init__(encoding, place)
        self.heads = host.num_attention_heads
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = host.q_proj, host.k_proj, host.v_proj, host.o_proj

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> tuple[Tensor, None]:
        if attention_mask is not None:
            raise ValueError("attention_mask is not supported, as images have no padding. Call the model without it")
        x = self.input(hidden_states)
        q, k, v = (
            p(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        return self.o_proj(self.attend(q, k, v, x)), None
