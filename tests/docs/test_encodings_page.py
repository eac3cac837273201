"""docs/reference/encodings.md and its pages agree with the code of each encoding."""

import inspect
import re
import shlex
from pathlib import Path

import pytest
import torch

from ndformer.framework.attention import build_encoding
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from tests.docs import made

DOCS = made.ROOT / "docs"
TABLE = (DOCS / "reference" / "encodings.md").read_text()
FAMILIES = [path.read_text() for path in sorted((DOCS / "reference" / "encodings").glob("*.md"))]
PAGE = "\n".join([TABLE, *FAMILIES])
SCRIPT = (DOCS / "images" / "draw_encodings.sh").read_text()
ENCODINGS.get("NoPE")  # finds them all
NAMES = sorted(ENCODINGS.module_dict)
FLAGS = ("float_positions", "content_dependent", "translation_invariant", "rotation_invariant")
SIZES = [dict(D=48, H=4, P=2), dict(D=96, H=6, P=3)]


def section(name: str) -> str:
    (text,) = [part for part in re.split(r"^## ", PAGE, flags=re.MULTILINE) if part.startswith(name + "\n")]
    return text


def flags(name: str) -> dict[str, str]:
    """Return the table of a section as heading -> cell."""
    rows = [line.strip("| ").split(" | ") for line in section(name).splitlines() if line.startswith("|")]
    header, _, cells = rows[:3]
    return dict(zip(header, cells))


def build(name: str, D: int, H: int, P: int, **options) -> PositionEncoding:
    return build_encoding(dict(type=name, **options), dim=D, heads=H, position_dims=P, depth=2)


def count(encoding: PositionEncoding) -> int:
    return sum(p.numel() for p in encoding.layer(0, 2).parameters())


@pytest.mark.parametrize("name", NAMES)
def test_flags_are_those_of_the_encoding(name):
    encoding = build(name, **SIZES[0])
    for flag in FLAGS:
        assert flags(name)[flag.replace("_", " ")] == ("yes" if getattr(encoding, flag) else "no"), flag


@pytest.mark.parametrize("name", NAMES)
def test_parameters_are_as_many_as_the_formula_says(name):
    options = {key: p.default for key, p in inspect.signature(ENCODINGS.get(name)).parameters.items()}
    for size in SIZES:
        numbers = dict(
            size,
            h=size["D"] // size["H"],
            **{key: options[key] for key in ("m", "reach", "npos_max", "hidden", "block") if key in options},
        )
        assert eval(flags(name)["parameters per layer"].strip("`"), {}, numbers) == count(build(name, **size))


def test_parameters_of_options_are_as_many_as_the_text_says():
    for size in SIZES:
        D, H, P = size.values()
        assert "`H * (h // 2) * P` parameters" in section("RoPEMixed")
        assert count(build("RoPEMixed", **size, preset="pape_repo")) == H * (D // H // 2) * P
        assert "`H * (2 * reach + 1)**P` parameters" in section("RelativeBias")
        assert count(build("RelativeBias", **size, reach=3, joint=True)) == H * 7**P


@pytest.mark.parametrize("name", ["LearnableSincos", "LearnableAbsolute", "LearnableFourier", "LaPE"])
def test_weights_that_layers_share_are_as_many_as_the_table_says(name):
    options = {key: p.default for key, p in inspect.signature(ENCODINGS.get(name)).parameters.items()}
    for size in SIZES:
        encoding = build(name, **size)
        for index in range(2):
            encoding.layer(index, 2)
        found = sum(p.numel() for p in encoding.parameters())
        assert eval(flags(name)["cost"].split("`")[1], {}, dict(size, L=2, **options)) == found


@pytest.mark.parametrize("name", ["PaPE", "PaPERI"])
def test_channels_are_as_many_as_the_table_says(name):
    for size in SIZES:
        encoding = build(name, **size)
        where = Where(torch.zeros(1, 5, size["P"]))
        x = torch.randn(1, 5, size["D"])
        q = x.unflatten(-1, (size["H"], -1)).transpose(1, 2)
        _, _, bias = encoding.layer(0, 2)(q, q, x, encoding.prepare(where))
        assert bias is not None
        formula = flags(name)["cost"].split("`")[1]
        assert eval(formula, {}, size) == bias.features()[0].shape[-1]


@pytest.mark.parametrize("name", NAMES)
def test_every_option_stands_there_with_its_default(name):
    taken = set(inspect.signature(PositionEncoding).parameters)  # which have sections of their own
    own = [base for base in ENCODINGS.get(name).__mro__[1:] if base.__name__ in NAMES]  # say theirs in their section
    for kind in set(ENCODINGS.get(name).__mro__).difference(*(base.__mro__ for base in own), PositionEncoding.__mro__):
        for option in inspect.signature(kind).parameters.values():
            if option.name not in taken and option.default is not option.empty:
                assert f"`{option.name}={option.default!r}`" in section(name)


@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_has_its_picture_and_its_paper(name):
    assert f"](../../images/{name}.png)" in section(name)
    assert re.search(r"\]\(https://arxiv.org/abs/\d|Same paper", section(name))
    page, _, anchor = made.encodings()[name][0].partition("#")
    assert anchor == name.lower()
    assert f"\n## {name}\n" in (DOCS / page).read_text()


def test_table_at_the_top_names_the_file_of_each_registered_encoding():
    row = r"^\| \[(\w+)\]\(encodings/\w+\.md#\w+\) \| .* \| \[(\w+)\.py\]\(\.\./\.\./ndformer/encodings/(\w+)\.py\) \|$"
    rows = re.findall(row, TABLE, flags=re.MULTILINE)
    modules = [(name, ENCODINGS.get(name).__module__.removeprefix("ndformer.encodings.")) for name in NAMES]
    assert sorted((name, text) for name, text, _ in rows) == modules
    assert all(text == link for _, text, link in rows)


def test_pictures_are_small_and_can_be_drawn_again():
    pictures = {path.name: path for path in (DOCS / "images").glob("*.png")}
    commands = [shlex.split(line) for line in SCRIPT.splitlines() if line.startswith("ndformer show_encoding ")]
    shown = re.findall(
        r"!\[[^]]+\]\(\.\./(?:\.\./)?images/(\w+\.png)\)", PAGE
    )  # each with a text for those who cannot see it
    assert sorted(shown) == sorted(Path(command[-1]).name for command in commands)
    assert set(shown) <= set(pictures)
    assert all(pictures[name].stat().st_size < 150_000 for name in shown)


@pytest.mark.parametrize("m, patches", [(2, 4), (8, 2), (50, 0.8)])
def test_attention_starts_as_wide_as_the_page_says(m, patches):
    assert "4 patches at m=2, 2 at m=8 and 0.8 at m=50" in section("init_radius")
    torch.manual_seed(0)
    encoding = build("PaPE", D=768, H=12, P=2, m=m, direction=False)
    where = Where(torch.zeros(1, 400, 2))
    x = torch.nn.functional.layer_norm(torch.randn(1, 400, 768), [768])
    q = torch.zeros(1, 12, 400, 64)
    curvatures = []
    for index in range(4):
        _, _, bias = encoding.layer(index, 12)(q, q, x, encoding.prepare(where))
        M00, _, M11 = bias.M  # type: ignore[union-attr]
        curvatures.append(-(M00 + M11) / 2)
    mean = torch.stack(curvatures).mean()  # exp(-curvature dr^2)
    assert (2 * mean).rsqrt().item() == pytest.approx(patches, rel=0.1)


def test_ntk_and_yarn_apply_to_the_encodings_that_the_page_names():
    (named,) = re.findall(r"^NTK and YaRN apply to (.*) without `normalize`", TABLE, re.MULTILINE)
    scaled = {name for name in NAMES if build(name, **SIZES[0]).scales_waves}
    assert set(re.split(r", | and ", named)) == scaled
