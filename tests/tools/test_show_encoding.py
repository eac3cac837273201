"""tools/show_encoding.py: the drawn numbers are the encoding's, and errors."""

import math
import runpy
import sys
from pathlib import Path

import matplotlib
import pytest
import torch

from ndformer.cli import encoding_pictures
from ndformer.cli.encoding_pictures import measure
from ndformer.cli.naming import options
from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from tools import show_encoding

SCRIPT = Path(show_encoding.__file__)
ENCODINGS.get("NoPE")  # finds them all
NAMES = sorted(ENCODINGS.module_dict)
GRID = torch.cartesian_prod(torch.arange(5.0), torch.arange(6.0))  # (30, 2)
QUERIES = torch.tensor([0, 14])


@pytest.fixture
def where():
    return Where(GRID[None], grid=(5, 6))


def draw(name, given, compare, dims, heads):
    return encoding_pictures.draw(ENCODINGS.get(name), given, compare, dims, heads)


def run_as_script(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", [str(SCRIPT), *arguments])
    runpy.run_path(str(SCRIPT), run_name="__main__")


@pytest.mark.slow
@pytest.mark.parametrize("dims", ["1", "2", "3"])
@pytest.mark.parametrize("name", NAMES)
def test_every_encoding_is_drawn(name, dims, tmp_path, capsys):
    out = tmp_path / "x.png"
    show_encoding.main([name, "--dims", dims, "--heads", "2", "--out", str(out)])
    assert out.read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out.strip() == str(out)


def test_the_picture_is_called_after_the_encoding(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    show_encoding.main(["NoPE"])
    assert Path("NoPE.png").stat().st_size > 1000
    assert capsys.readouterr().out == "NoPE.png\n"


def test_the_title_says_name_options_and_dimensions():
    picture = draw("PaPE", dict(m=8, direction=False), [], 3, 2)
    assert picture.get_suptitle() == "PaPE (m=8, direction=False), 3-D, untrained"


def test_options_are_read_as_python_values_or_words(tmp_path):
    assert options(["m=8", "reach=[2, 3]", "context=False", "preset=pape_repo", "kinds=[a, b]"]) == dict(
        m=8, reach=[2, 3], context=False, preset="pape_repo", kinds=["a", "b"]
    )
    out = str(tmp_path / "x.png")  # options may stand before and after the others
    show_encoding.main(["RelativeBias", "reach=4", "--dims", "1", "joint=True", "--out", out])


OWN = """
from ndformer.encodings.alibi import ALiBi

class Faint(ALiBi):
    def __init__(self, dim, heads, position_dims, depth, times=0.5):
        super().__init__(dim, heads, position_dims, depth, position_scale=times)

class Broken(ALiBi):
    def tables(self, positions, where):
        raise RuntimeError('no tables today')
"""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["own_encodings.py", "own_encodings"])
def test_an_encoding_of_ones_own_is_drawn_from_its_file_or_module(place, tmp_path, monkeypatch, capsys):
    (tmp_path / "own_encodings.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "own_encodings", raising=False)
    show_encoding.main([f"{place}:Faint", "times=2", "--dims", "1"])
    assert capsys.readouterr().out == "Faint.png\n"
    assert Path("Faint.png").stat().st_size > 1000
    run_as_script(monkeypatch, f"{place}:Faint", "--compare", "times=1", "--compare", "times=3")
    for name, sentence in [("Broken", "RuntimeError: no tables today"), ("Fain", f"{place} has no class 'Fain', did")]:
        with pytest.raises(SystemExit, match=f"^show_encoding: {sentence}"):
            run_as_script(monkeypatch, f"{place}:{name}")


@pytest.mark.parametrize("dims", [2, 3])
@pytest.mark.parametrize("name", ["AxialRoPE", "Sincos", "ALiBi"])
def test_titles_of_neighbors_do_not_touch(name, dims):
    picture = draw(name, {}, [], dims, 4)
    picture.canvas.draw()
    boxes = [ax.title.get_window_extent() for ax in picture.axes if ax.get_title()]
    assert len(boxes) >= 3
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_nope_attends_to_all_alike(where):
    found = measure(dict(type="NoPE"), where, 2, QUERIES).values
    assert list(found) == ["attention"]
    torch.testing.assert_close(found["attention"], torch.full((2, 2, 30), 1 / 30))


def test_sincos_shows_how_alike_its_embeddings_are(where):
    found = measure(dict(type="Sincos"), where, 1, QUERIES).values
    frequencies = 10000.0 ** -(torch.arange(16.0) / 16)  # 64 channels, two axes
    difference = GRID - GRID[QUERIES][:, None]  # (Q, N, 2)
    expected = (difference[..., None] * frequencies).cos().mean((-1, -2))
    assert list(found) == ["similarity"]
    torch.testing.assert_close(found["similarity"][:, 0], expected)


def test_a_rotary_encoding_shows_the_logit_of_equal_queries_and_keys(where):
    found = measure(dict(type="AxialRoPE"), where, 2, QUERIES).values
    frequencies = 100.0 ** -(torch.arange(16.0) / 16)
    difference = GRID - GRID[QUERIES][:, None]
    expected = 8 * (difference[..., None] * frequencies).cos().mean((-1, -2))  # 64 ones, over sqrt(64)
    torch.testing.assert_close(found["logit"], expected[:, None].expand(-1, 2, -1))
    torch.testing.assert_close(found["attention"], found["logit"].softmax(-1))


def test_a_bias_is_shown_as_it_is_and_as_attention(where):
    measured = measure(dict(type="ALiBi"), where, 2, QUERIES)
    found = measured.values
    distance = (GRID - GRID[QUERIES][:, None]).norm(dim=-1)  # (Q, N)
    slopes = torch.tensor([2.0**-4, 2.0**-8])
    torch.testing.assert_close(found["bias"], -slopes[:, None] * distance[:, None])
    torch.testing.assert_close(found["attention"], found["bias"].softmax(-1))
    assert not measured.content_dependent


def test_content_dependent_biases_see_random_normed_tokens(where):
    measured = measure(dict(type="PaPE", m=4), where, 2, QUERIES)
    found = measured.values
    torch.manual_seed(0)
    encoding = build_encoding(dict(type="PaPE", m=4), dim=128, heads=2, position_dims=2, depth=12)
    attention = Attention(128, 2, encoding.layer(0, 12))
    x = torch.randn(1, 30, 128, generator=torch.Generator().manual_seed(0))
    x = (x - x.mean(-1, keepdim=True)) / x.var(-1, keepdim=True, correction=0).sqrt()
    parts = attention.logits(x, where, encoding.prepare(where), parts=True)
    expected = (parts["distance"] + parts["direction"])[0, :, QUERIES].transpose(0, 1)
    torch.testing.assert_close(found["bias"], expected, rtol=1e-4, atol=1e-4)
    assert measured.content_dependent


def test_weights_that_start_at_0_are_drawn_at_random(where):
    measured = measure(dict(type="CoPE", two_sided=True), where, 1, QUERIES)
    assert measured.values["bias"].std() > 0.1
    assert measured.randomized == ["table"]
    assert "(starts at 0, drawn at random: table)" in draw("CoPE", dict(two_sided=True), [], 2, 1).get_suptitle()


def test_weights_that_start_at_0_stay_0_where_there_is_something_to_see(where, monkeypatch):
    """A learned phase that starts at 0 was drawn at random, so the picture was not that of an untrained encoding."""

    class Shifted(ENCODINGS.get("ALiBi")):
        def layer(self, index, depth):
            layer = super().layer(index, depth)
            layer.phase = torch.nn.Parameter(torch.zeros(self.heads))
            plain = layer.bias

            def bias(*arguments):
                shifted = plain(*arguments)
                shifted.slopes = shifted.slopes + layer.phase
                return shifted

            layer.bias = bias
            return layer

    monkeypatch.setitem(ENCODINGS.module_dict, "Shifted", Shifted)
    actual, expected = (measure(dict(type=name), where, 2, QUERIES) for name in ("Shifted", "ALiBi"))
    assert list(actual.randomized) == []
    torch.testing.assert_close(actual.values["bias"], expected.values["bias"])


@pytest.mark.parametrize("name, options", [("PRoPE", {}), ("GTA", dict(cameras=0.5))])
def test_two_cameras_change_logits_and_values(name, options):
    second = GRID[:, 1] > 2
    where = Where(GRID[None], cameras=encoding_pictures.two_cameras(second[None]))
    found = measure(dict(type=name, **options), where, 2, QUERIES).values
    base = 100.0 if name == "PRoPE" else 2.0**8
    difference = (GRID - GRID[QUERIES][:, None])[..., None] * base ** -(torch.arange(8.0) / 8)  # 32 channels, two axes
    blocks = torch.where(second == second[QUERIES][:, None], 4.0, 3.0)  # 1'R 1 + 1: 2 cos(60 degrees) + 2
    expected = (8 * blocks + 2 * difference.cos().sum((-1, -2))) / 8
    torch.testing.assert_close(found["logit"][:, 0], expected)
    torch.testing.assert_close(found["value"], found["logit"] / 8)  # rotations keep the length of a value


def test_a_picture_of_cameras_says_which_tokens_are_in_the_second_one():
    picture = draw("PRoPE", {}, [], 2, 2)
    title = picture.get_suptitle().replace("\n", " ")
    assert title.endswith("untrained (far half of the last axis: a camera turned by 60°)")
    logits = picture.axes[0].get_images()[0].get_array()  # query in the middle, in the first camera
    assert logits is not None
    assert logits[8, 7] == pytest.approx(logits[8, 9] + 1, abs=1e-5)
    assert "camera" not in draw("GTA", {}, [], 2, 2).get_suptitle()


def test_keys_out_of_view_are_gray_not_zero(where):
    found = measure(dict(type="LookHere"), where, 4, QUERIES).values
    assert found["bias"][0, 3].isfinite().all()  # this head looks everywhere
    assert found["bias"][0, 0].isfinite().all()  # down and to the right, from the corner
    assert found["bias"][0, 1].isinf().sum() == 29  # up and to the left: itself alone
    note = draw("LookHere", {}, [], 2, 4).get_supxlabel()
    assert note.endswith("gray: keys it does not see")


def test_compared_settings_stand_side_by_side(where):
    picture = draw("ALiBi", {}, [dict(position_scale=1), dict(position_scale=3)], 1, 2)
    lines = picture.axes[0].get_lines()
    assert [line.get_label() for line in lines[:2]] == ["position_scale=1", "position_scale=3"]
    torch.testing.assert_close(torch.tensor(lines[1].get_ydata()), 3 * torch.tensor(lines[0].get_ydata()))


def test_equal_heads_are_drawn_once():
    assert [ax.get_title() for ax in draw("Sincos", {}, [], 2, 4).axes[:3]] == [
        "query in the middle",
        "aside",
        "in the corner",
    ]
    assert draw("ALiBi", {}, [], 2, 4).axes[3].get_title() == "head 4"


def test_the_query_is_ringed_where_it_is():
    for ax in draw("ALiBi", {}, [], 2, 2).axes[:6]:
        x, y = (float(value[0]) for value in ax.get_lines()[0].get_data())
        values = ax.get_images()[0].get_array()
        assert values is not None
        assert values[int(y), int(x)] == values.max() == 0


def test_attention_is_relative_to_the_largest_in_its_panel_and_says_it():
    picture = draw("ALiBi", {}, [], 2, 2)
    *panels, bar = picture.axes[7:]
    assert len(panels) == 6  # 3 queries, 2 heads
    assert [label.get_text() for label in bar.get_yticklabels()] == ["0", "0.1", "0.5", "max"]
    for ax in panels:
        values = ax.get_images()[0].get_array()
        assert values is not None
        assert values.max() == 1
        assert float(ax.get_xlabel().removeprefix("max ")) == pytest.approx(1 / values.sum(), rel=0.05)


def test_a_bias_that_starts_at_0_is_drawn_white(monkeypatch):
    class Silent(ENCODINGS.get("ALiBi")):
        def __init__(self, dim, heads, position_dims, depth):
            super().__init__(dim, heads, position_dims, depth, position_scale=0.0)

    monkeypatch.setitem(ENCODINGS.module_dict, "Silent", Silent)
    draw("Silent", {}, [], 1, 2).canvas.draw()
    image = draw("Silent", {}, [], 2, 2).axes[0].get_images()[0]
    assert image.to_rgba(image.get_array())[8, 3].tolist() == pytest.approx(image.cmap(0.5), abs=0.01)


def test_drawing_leaves_matplotlib_as_it_was():
    before, backend = dict(matplotlib.rcParams), matplotlib.get_backend()
    draw("PaPE", {}, [], 1, 2)
    assert dict(matplotlib.rcParams) == before
    assert matplotlib.get_backend() == backend


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["pap"], "no encoding is called 'pap', did you mean 'PaPE' or 'PaPERI'"),
        (["PaPE", "M=8"], "PaPE has no option 'M', did you mean 'm'?"),
        (["PaPE", "8"], "options: expected KEY=VALUE, such as m=8 or train_cfg.max_epochs=5, got '8'"),
        (["FlatOnly", "--dims", "3"], "FlatOnly requires 1 to 2 position dimensions, got 3"),
    ],
)
def test_a_mistake_is_one_sentence(arguments, sentence, monkeypatch, tmp_path):
    class FlatOnly(PositionEncoding):
        max_dims = 2

    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NDFORMER_DEBUG", raising=False)
    monkeypatch.setitem(ENCODINGS.module_dict, "FlatOnly", FlatOnly)
    with pytest.raises(SystemExit) as stop:
        run_as_script(monkeypatch, *arguments)
    assert isinstance(stop.value.code, str)  # Python prints it on stderr and exits with 1
    assert stop.value.code.startswith("show_encoding: " + sentence)
    assert "\n" not in stop.value.code
    monkeypatch.setenv("NDFORMER_DEBUG", "1")
    with pytest.raises((KeyError, ValueError)):
        run_as_script(monkeypatch, *arguments)


def test_pictures_do_not_depend_on_earlier_random_numbers(where):
    torch.manual_seed(1)
    first = measure(dict(type="RoPEMixed"), where, 2, QUERIES).values
    torch.rand(7)
    second = measure(dict(type="RoPEMixed"), where, 2, QUERIES).values
    assert torch.equal(first["logit"], second["logit"])
    assert math.isclose(float(first["logit"].max()), 8, rel_tol=1e-5)
