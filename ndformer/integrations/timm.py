"""Another position encoding in a VisionTransformer of timm (tried with timm 1.0.31).

vit = timm.create_model("vit_small_patch16_224", pretrained=True)
vit = with_encoding(vit, "PaPE(m=50)")           # fine-tune it: the encoding's own weights are new
"""

from typing import Any

from torch import Tensor, nn

from ndformer.framework.adapter import ClassPosition
from ndformer.integrations.hosting import Hosted, Named, Place, Positions, check_dropout


def with_encoding(vit: Any, encoding: Named, keep_table: bool = False, class_at: ClassPosition = "auto") -> Any:
    """The same model, changed in place. Its learned table of places is taken out, unless `keep_table`; all other
    weights stay under their names. From then on it takes any size that patches divide, and timm resamples a table.

    `class_at` is the position of class token and registers, as in ndformer's own models: 'auto' is the middle of the
    patches ('centre') for PaPE and PaPECompact and no position ('nowhere') for other encodings; 'origin' is 0.
    """
    from timm.layers import Attention, PatchEmbed  # pyright: ignore[reportMissingImports]
    from timm.layers.format import Format  # pyright: ignore[reportMissingImports]
    from timm.models.vision_transformer import VisionTransformer  # pyright: ignore[reportMissingImports]

    if not isinstance(vit, VisionTransformer) or type(vit)._pos_embed is not VisionTransformer._pos_embed:
        raise TypeError(f"with_encoding takes a VisionTransformer of timm, got {type(vit).__name__}")
    strange = next((one for b in vit.blocks if type(one := b.attn) is not Attention), None)
    if strange is not None or type(vit.patch_embed) is not PatchEmbed:
        raise TypeError(
            f"the attention of this model is {type(strange or vit.patch_embed).__name__}, and only timm's plain one, "
            "over its plain patches, is known here"
        )
    if not isinstance(vit.patch_drop, nn.Identity):
        raise ValueError("the model drops patches in training, and their places with them: build it without")
    first, depth = vit.blocks[0].attn, len(vit.blocks)
    check_dropout(first.attn_drop.p)
    positions = Positions(encoding, first.qkv.in_features, first.num_heads, depth, vit.num_prefix_tokens, class_at)
    for i, block in enumerate(vit.blocks):
        block.attn = _Attention(block.attn, positions.encoding.layer(i, depth), positions.place)
    if not keep_table:
        vit.pos_embed = None
    vit.dynamic_img_size, patches = True, vit.patch_embed  # as timm's own option of this name has it
    patches.strict_img_size, patches.flatten, patches.output_fmt = False, False, Format.NHWC
    vit.position_encoding = positions.to(first.qkv.weight.device)
    patches.register_forward_hook(_Enter(positions))
    vit.norm_pre.register_forward_pre_hook(_Embed(positions))
    positions.register_block_updates(vit.blocks)
    return vit


class _Enter:
    def __init__(self, positions: Positions) -> None:
        self.positions = positions

    def __call__(self, patches: Any, given: Any, x: Tensor) -> None:
        """x (B, rows, columns, dim)"""
        self.positions.enter(x.shape[1], x.shape[2], x.device)


class _Embed:
    def __init__(self, positions: Positions) -> None:
        self.positions = positions

    def __call__(self, norm: nn.Module, given: Any) -> Tensor:
        return self.positions.embed(given[0])


class _Attention(Hosted):
    """timm's, by its names."""

    def __init__(self, host: Any, encoding: Any, place: Place) -> None:
        super().__init__(encoding, place)
        parts = dict(host.named_children())
        self.num_heads, self.qkv, self.proj, self.proj_drop = host.num_heads, host.qkv, host.proj, host.proj_drop
        self.q_norm, self.k_norm, self.norm = host.q_norm, host.k_norm, parts.get("norm", nn.Identity())
        self.gate = parts.get("gate")

    def forward(self, x: Tensor, attn_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if attn_mask is not None or is_causal:
            raise ValueError("attention with an encoding of ours takes no mask: images have no padding")
        x = self.input(x)
        q, k, v = self.qkv(x).unflatten(-1, (3, self.num_heads, -1)).permute(2, 0, 3, 1, 4)
        y = self.norm(self.attend(self.q_norm(q), self.k_norm(k), v, x))
        y = y if self.gate is None else y * self.gate(x).sigmoid()
        return self.proj_drop(self.proj(y))
