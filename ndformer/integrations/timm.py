"""Replace the position encoding of a timm VisionTransformer (tested with timm 1.0.31).

vit = timm.create_model("vit_small_patch16_224", pretrained=True)
vit = with_encoding(vit, "PaPE(m=50)")           # then fine-tune: weights of the encoding are new
"""

import functools
from typing import Any

from torch import Tensor, nn

from ndformer.framework.adapter import ClassPosition
from ndformer.integrations.hosting import Hosted, Named, Place, Positions, check_dropout


def with_encoding(vit: Any, encoding: Named, keep_table: bool = False, class_at: ClassPosition = "auto") -> Any:
    """Replace the position encoding of a model in place and return it.

    The learned position table is removed unless `keep_table`; other weights keep their names. The model then accepts
    any image size divisible by the patch size; timm resamples a remaining table.

    `class_at` is the position of class token and registers, as in ndformer's models: 'auto' is the middle of the
    patches ('center') for PaPE and PaPECompact and no position ('nowhere') for other encodings and with
    `periods`; 'origin' is 0.

    Encodings of values and outputs (GTA) work as in ndformer's models. Patches have no cameras, so the camera channels
    of GTA and PRoPE have no position. `periods` are counted in patches: [None, 14] for a panorama of 14 columns.
    """
    from timm.layers import Attention, PatchEmbed  # pyright: ignore[reportMissingImports]
    from timm.layers.format import Format  # pyright: ignore[reportMissingImports]
    from timm.models.vision_transformer import VisionTransformer  # pyright: ignore[reportMissingImports]

    if not isinstance(vit, VisionTransformer) or type(vit)._pos_embed is not VisionTransformer._pos_embed:
        raise TypeError(f"with_encoding requires a VisionTransformer of timm, got {type(vit).__name__}")
    other = next((attn for b in vit.blocks if type(attn := getattr(b, "attn", b)) is not Attention), None)
    if other is not None or type(vit.patch_embed) is not PatchEmbed:
        raise TypeError(
            f"with_encoding requires timm's Attention and PatchEmbed, got {type(other or vit.patch_embed).__name__}"
        )
    if not isinstance(vit.patch_drop, nn.Identity):
        raise ValueError("patch dropout must be 0, as it drops positions. Create the model with patch_drop_rate=0")
    first, depth = vit.blocks[0].attn, len(vit.blocks)
    check_dropout(first.attn_drop.p)
    positions = Positions(encoding, first.qkv.in_features, first.num_heads, depth, vit.num_prefix_tokens, class_at)
    for i, block in enumerate(vit.blocks):
        block.attn = _Attention(block.attn, positions.encoding.layer(i, depth), positions.place)
    if not keep_table:
        vit.pos_embed = None
    vit.dynamic_img_size, patches = True, vit.patch_embed  # as timm's option of this name does
    patches.strict_img_size, patches.flatten, patches.output_fmt = False, False, Format.NHWC
    vit.position_encoding = positions.to(first.qkv.weight.device)
    patches.register_forward_hook(functools.partial(_enter, positions))
    vit.norm_pre.register_forward_pre_hook(functools.partial(_embed, positions))
    positions.register_block_updates(vit.blocks)
    return vit


def _enter(positions: Positions, patches: Any, args: Any, x: Tensor) -> None:
    """Hook: prepare the encoding for patches x (B, rows, columns, dim)."""
    positions.enter(x.shape[1], x.shape[2], x.device)


def _embed(positions: Positions, norm: nn.Module, args: Any) -> Tensor:
    return positions.embed(args[0])


class _Attention(Hosted):
    """timm's Attention with the same parameter names."""

    def __init__(self, host: Any, encoding: Any, place: Place) -> None:
        super().__init__(encoding, place)
        parts = dict(host.named_children())
        self.num_heads, self.qkv, self.proj, self.proj_drop = host.num_heads, host.qkv, host.proj, host.proj_drop
        self.q_norm, self.k_norm, self.norm = host.q_norm, host.k_norm, parts.get("norm", nn.Identity())
        self.gate = parts.get("gate")

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None or is_causal:
            raise ValueError(
                "attn_mask and is_causal are not supported, as images have no padding. Call the model without them"
            )
        x = self.input(x)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        y = self.norm(self.attend(self.q_norm(q), self.k_norm(k), v, x))
        y = y if self.gate is None else y * self.gate(x).sigmoid()
        return self.proj_drop(self.proj(y))
