"""Options and places that an encoding cannot have are refused when it is built, with what to write instead."""

from typing import Any

import pytest

from ndformer.framework.attention import build_encoding

PLACE: dict[str, Any] = dict(dim=16, heads=2, position_dims=2, depth=1)
WIDE, IN_SPACE = dict(dim=48), dict(dim=48, position_dims=3)
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any], str]] = [  # options, changes of PLACE, message
    ("PaPE", {}, dict(heads=3), "dim must be divisible by heads, got dim=16 and heads=3"),
    ("ALiBi", dict(position_scale=(1.0, 2.0)), IN_SPACE, r"one per position dimension \(3\)"),
    ("Sincos", {}, dict(position_dims=9), "18 for 9 dimensions, got dim 16"),
    ("ObjectSincos", {}, dict(dim=8, position_dims=3), "12 for 3 dimensions, got dim 8"),
    ("ObjectSincos", dict(preset="original"), IN_SPACE, "'paper' or 'repo', got 'original'"),
    *((name, dict(preset="paperepo"), {}, "'pape_repo', got 'paperepo'")
      for name in ("Sincos", "AxialRoPE", "RoPEMixed", "LookHere", "PaPERI", "LearnableSincos")),
    ("LookHere", dict(fov=60), {}, "LookHere: fov must be 180, 90 or 45, got 60"),
    ("DirectionalRPE", dict(preset="repo"), IN_SPACE, "2 position dimensions, got 3. Set diagonals=False"),
    ("DirectionalRPE", dict(diagonals=True), dict(position_dims=1), "dimensions, got 1. Set diagonals=False"),
    ("DirectionalRPE", dict(preset="pape_repo"), {}, "'paper' or 'repo', got 'pape_repo'"),
    # parabolas
    ("PaPE", dict(distance=False, direction=False), {}, "Take NoPE"),
    ("PaPE", dict(init_radius=3.0, project=False), {}, "init_radius needs distance, activation and project"),
    ("PaPE", dict(impl="concat"), {}, "'quadratic' or 'paper_concat', got 'concat'"),
    *((name, dict(init_radius=radius), {}, "init_radius")
      for name in ("PaPE", "PaPERI") for radius in (0, -1, (1, 0), (1, 2, 3))),
    *(("PaPE", dict(offsets=True, **options), {}, "offsets") for options in (
        dict(), dict(init_radius=2, direction=False), dict(init_radius=2, context=False), dict(init_radius=2, m=1))),
    *(("PaPE", options, {}, r"PaPE\.from_data\(options, \[where\]\)")
      for options in (dict(init_radius="spread"), dict(position_scale="auto"))),
    ("PaPECompact", dict(init_radius=0.0), {}, "init_radius must be a number above 0"),
    ("PaPEDirectional", dict(init_radius=0.0), {}, "init_radius must be a number above 0"),
    ("PaPEDirectional", dict(landmarks=0), {}, "landmarks must be a whole number from 1 to"),
    ("Polynomial", dict(degree=0), {}, "degree must be a whole number from 1 to 12, got 0"),
    ("Polynomial", dict(m=0), {}, "m must be a whole number from 1 to"),
    ("Polynomial", dict(form="mixed"), {}, "form must be 'elementwise' or 'multivariate', got 'mixed'"),
    # rotations
    ("AxialRoPE", {}, dict(position_dims=5), "head of 8 is too narrow for 5 dimensions, which take 10"),
    ("RoPEMixed", {}, dict(position_dims=5), "head of 8 is too narrow for 5 dimensions, which take 10"),
    ("RotaryND", dict(sections=[3, 3]), {}, "with directions='interleaved', or .* got"),
    ("RotaryND", dict(directions="interleaved", sections=[3]), {}, "largest number of pairs of each of the 2 axes"),
    ("RotaryND", dict(preset="vjepa2", learned=True), IN_SPACE, "has axial directions, pairs of neighbors"),
    ("RotaryND", dict(preset="litept"), dict(dim=96, position_dims=5), "a head of 48 does not divide by 10"),
    ("RotaryND", dict(directions="helix"), {}, "directions must be 'axial', 'interleaved'"),
    ("RotaryND", dict(directions="simplex"), dict(dim=64, position_dims=16), "too narrow"),
    ("LieRE", dict(block=1), WIDE, "block must be from 2 to 24 channels"),
    ("LieRE", dict(block=25), WIDE, "block must be from 2 to 24 channels, .* got 25"),
    ("ComRoPE", dict(kind="AP", block=12), IN_SPACE,
     "for each of 3 axes, got 2 in a head of 24. Take smaller blocks, or kind='LD'"),
    ("ComRoPE", dict(kind="ap"), IN_SPACE, "kind must be 'LD' or 'AP', got 'ap'"),
    ("ComRoPE", dict(normalize="ends"), IN_SPACE, "normalize must be 'separate', 'min', 'max' or None, got 'ends'"),
    ("PoPE", dict(preset="dinov3"), {}, "has no channel pairs"),
    ("RotaryND", dict(preset="heads"), {}, "preset must be 'original', .*, got 'heads'"),
    *((name, dict(axes=[1, 0], **options), {}, "axes orders fixed directions, got directions='mixed', random ones")
      for name, options in (("RotaryND", dict(directions="mixed")), ("RoPEMixed", {}))),
    *(("RotaryND", dict(directions="heads", sections=sections), {}, message)
      for sections, message in (([2, 3], "1 or more heads for each axis, 2 at most in all"), ([0, 2], "from 1 to"))),
    *(("RotaryND", dict(channels=channels), {}, "a number above 0 and up to 1, got") for channels in (1.5, -1, 0)),
    ("RotaryND", dict(channels=0.1), {}, "0 of a head's 8 are left for them, and 4 are needed. Raise `channels`"),
    *((name, dict(cameras=cameras), {}, "from 0 and below 1, got") for name in ("GTA", "PRoPE") for cameras in (1, -1)),
    *((name, dict(cameras=0.4), {}, "less than one block of 4. Set cameras=0.5 or more") for name in ("GTA", "PRoPE")),
    *((name, options | dict(periods=[None, 9]), {}, f"{reason}. Use") for name in ("RotaryND", "AxialRoPE", "PoPE")
      for options, reason in ((dict(learned=True), "learned frequencies do not stay whole turns"),
                              (dict(normalize="min"), "normalized positions have no period"))),
    *(("PaPE", dict(periods=[None, period]), {}, "periods must be a list, each item a number above 0 .* or None, got")
      for period in (0, -24, float("nan"), float("inf"), "24h")),
    *(("PaPE", dict(periods=periods), {}, "periods must be a list, each item") for periods in (24, "24")),
    ("PaPE", dict(periods=[24]), {}, r"one entry per position dimension \(2\)"),
    ("GTA", dict(camera_scale=0.1), {}, "camera_scale needs channels with cameras, got cameras=0 of a head of 8"),
    ("RotaryND", dict(directions="heads"), dict(position_dims=4), "needs a head for each of 4 axes, got heads="),
    ("RotaryND", dict(directions="spiral"), dict(position_dims=3), "2 dimensions and heads of at least 8 channels"),
    ("PoPE", dict(halves=True), {}, "neither halves nor a preset that pairs channels"),
    ("PoPE", {}, dict(dim=6, position_dims=4), "head of 3 is too narrow for 4 dimensions, which take 4"),
    ("STRING", {}, dict(dim=48, position_dims=13), "head of 24 is too narrow for 13 dimensions, which take 26"),
    # learned embeddings
    ("LearnableAbsolute", dict(grid=(3, 4, 5)), {}, r"one per position dimension \(2\), got \(3, 4, 5\)"),
    ("LearnableAbsolute", dict(grid=2000), {}, "2000 x 2000 entries has more than 1000000: take a smaller grid"),
    ("LearnableAbsolute", dict(extent=(1, 1)), {}, r"lowest below highest, got \(1, 1\)"),
    ("LearnableAbsolute", dict(extent=((0, 1),) * 3), {}, r"one for each position dimension \(2\)"),
    ("LearnableAbsolute", dict(extent=(0, 1), class_entries=2), {}, "class_entries is 0 or 1 with an extent, got 2"),
    ("LearnableFourier", dict(features=7), {}, "features must be even, .* got 7"),
    ("LearnableFourier", dict(groups=3), {}, "groups must divide the 2 position dimensions and the width 16, got 3"),
    ("LaPE", dict(encoding=dict(type="PaPE")), {}, "added to the tokens, such as Sincos, got PaPE"),
    ("LaPE", dict(encoding=dict(type="LaPE")), {}, "such as Sincos, got LaPE"),
    ("LaPE", dict(encoding=dict(type="PEMixer")), {}, "such as Sincos, got PEMixer"),
    ("PEMixer", dict(second=dict(type="ALiBi")), {}, "adds an embedding to tokens, got ALiBi. Take Sincos"),
    ("PEMixer", dict(strategy="sum"), {}, "strategy must be 'default', 'hardcoded_normalization'.*, got 'sum'"),
    ("PEMixer", dict(strategy="positional_attention", attention_heads=3), {},
     "16 does not divide into 3 heads .*attention_heads"),
    # tables and counts
    ("RelativeBias", dict(reach=(3, 4)), IN_SPACE, r"one per position dimension \(3\), got \(3, 4\)"),
    ("RelativeBias", dict(reach=200, joint=True), IN_SPACE, "use joint=False or a smaller reach"),
    ("Relative", dict(method="both"), {}, "method must be 'split', 'cross', 'product' or 'euclidean', got 'both'"),
    ("Relative", dict(buckets="t5"), {}, "buckets must be 'clipped', 'piecewise' or 'log', got 't5'"),
    ("Relative", dict(reach=[3]), {}, "reach must be one number or one per position dimension"),
    ("Relative", dict(method="product", reach=40), {}, "a table of 6561 entries, 4096 at most: take method='cross'"),
    ("Relative", dict(spans=(8, 16, 128)), {}, "'clipped' has a reach, spans are of 'piecewise' and 'log': take one"),
    ("Relative", dict(buckets="log", spans=(8, 8, 128)), {}, "alpha, beta and gamma must increase, got 8, 8, 128"),
    ("Relative", {}, dict(dim=6, position_dims=4),
     "heads of 3 do not split over 4 axes: take method='cross', or wider heads"),
    *(("CoPE", dict(order=order), {}, "'raster' or some of the 2 axes, counted from 0, each once, got")
      for order in ([], [0, 0], [2])),
    ("CoPE", dict(order="time"), {}, "order must be 'raster' or a list, each item .*, got 'time'"),
    ("SaPE2", dict(mode="v"), {}, "mode must be 'k', 'q' or 'qk', got 'v'"),
    ("SaPE2", dict(sign=0), {}, "sign must be 1 or -1, got 0"),
    ("SaPE2", dict(preset="appendix"), {}, "preset must be 'paper' or 'code', got 'appendix'"),
]  # fmt: skip


@pytest.mark.parametrize("name, options, place, message", REFUSED, ids=str)
def test_what_cannot_work_is_refused_when_built(
    name: str, options: dict[str, Any], place: dict[str, Any], message: str
) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        build_encoding(dict(type=name) | options, **PLACE | place)


@pytest.mark.parametrize(
    "cfg, nearest",
    [
        (dict(type="Pape"), "PaPE"),
        (dict(type="RopeMixed"), "RoPEMixed"),
        (dict(type="PaPE", init_radus=3.0), "init_radius"),
        (dict(type="LookHere", fow=90), "fov"),
        (dict(type="RelativeBias", position_scales=2.0), "position_scale"),
    ],
)
def test_unknown_names_and_options_name_the_nearest(cfg: dict[str, Any], nearest: str) -> None:
    with pytest.raises(KeyError, match=f"did you mean '{nearest}'"):
        build_encoding(cfg, **PLACE)
