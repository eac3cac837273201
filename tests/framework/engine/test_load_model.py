"""ndformer.load(): files and the same data in memory give the same answer, in each modality."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import ndformer
from ndformer.framework.answers.label import Label
from ndformer.framework.engine.config.load import load as load_config
from ndformer.framework.engine.training import checkpoint, exported
from ndformer.framework.errors import ConfigError, DataError
from tests import programs
from tests.programs import save_untrained

TINY = ["model.backbone.dim=16", "model.backbone.depth=2", "model.backbone.heads=2"]
CONFIGS = dict(image="mnist_small", points="modelnet40_plain_pape", events="dvsgesture_pape", video="lpc_actions")


def saved(folder: Path, name: str, *options: str, **content) -> Path:
    """Save an untrained checkpoint."""
    cfg = load_config(programs.CONFIGS / f"{name}.py", [*TINY, *options], "PaPE(m=4)", sample=True)
    classes = [f"class {i}" for i in range(cfg.model.head.classes)]
    save_untrained(folder / "best.pth", cfg, classes, 1.0, **dict(config=cfg.pretty_text) | content)
    return folder / "best.pth"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return {kind: saved(tmp_path_factory.mktemp(kind), name) for kind, name in CONFIGS.items()}


@pytest.fixture(scope="module")
def digits(runs):
    return ndformer.load(runs["image"])


@pytest.fixture(scope="module")
def pixels():
    return np.random.default_rng(0).integers(0, 256, (28, 28), np.uint8)


def same(a, b) -> bool:
    return torch.equal(a.scores, b.scores)


def test_a_picture_is_the_same_as_a_file_of_pillow_and_as_numbers(digits, pixels, tmp_path):
    Image.fromarray(pixels).save(tmp_path / "a.png")
    of_file = digits(str(tmp_path / "a.png"))
    given = [
        Image.fromarray(pixels),
        pixels,
        pixels[..., None],
        pixels / 255,
        torch.tensor(pixels)[None],
        pixels.astype(int),
    ]
    assert isinstance(of_file, Label)
    assert all(same(of_file, digits(one)) for one in [tmp_path / "a.png", *given])
    assert not same(of_file, digits(255 - pixels))


def test_lists_and_folders_have_an_answer_each_whatever_the_batch(digits, pixels, tmp_path):
    Image.fromarray(pixels).save(tmp_path / "a.png")
    Image.fromarray(255 - pixels).save(tmp_path / "b.png")
    one_by_one = [digits(tmp_path / "a.png"), digits(tmp_path / "b.png")]
    for several in (
        digits(tmp_path),
        digits([tmp_path / "a.png", tmp_path / "b.png"]),
        digits([pixels, tmp_path / "b.png"]),
    ):
        assert isinstance(several, list)
        assert all(torch.allclose(a.scores, b.scores, atol=1e-6) for a, b in zip(several, one_by_one, strict=True))
    assert [len(digits([pixels])), len(digits((pixels,) * 300))] == [1, 300]


def test_answers_say_names_and_scores(digits, pixels):
    answer = digits(pixels)
    (row,) = answer.table
    assert row["prediction"] == f"class {answer.prediction}"
    assert str(answer).startswith(f"class {answer.prediction} {answer.scores.max():.3f}  class ")
    assert sum(row[f"class {i}"] for i in range(10)) == pytest.approx(1, abs=1e-5)


def test_points_events_and_frames_are_the_same_as_files_of_them(runs, tmp_path):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(600, 6)).astype(np.float32)
    points[:, 3:] /= np.linalg.norm(points[:, 3:], axis=1, keepdims=True)  # of length 1: normals
    np.save(tmp_path / "points.npy", points)
    clouds = ndformer.load(runs["points"])
    columns = dict(zip(("x", "y", "z", "nx", "ny", "nz"), points.T))
    assert all(same(clouds(tmp_path / "points.npy"), clouds(one)) for one in (points, torch.tensor(points), columns))

    stream: dict[str, Any] = {axis: rng.integers(0, 128, 4000) for axis in "xy"}
    stream |= dict(t=np.sort(rng.integers(0, 10**6, 4000)), p=rng.integers(0, 2, 4000), height=128, width=128)
    np.savez(tmp_path / "events.npz", **stream)
    assert same((events := ndformer.load(runs["events"]))(tmp_path / "events.npz"), events(stream))

    frames = rng.integers(0, 256, (16, 64, 64, 3), np.uint8)
    (tmp_path / "film").mkdir()
    for i, frame in enumerate(frames):
        Image.fromarray(frame).save(tmp_path / "film" / f"{i:02}.png")
    videos = ndformer.load(runs["video"])
    assert same(videos(tmp_path / "film"), videos(frames))
    assert same(videos(frames), videos(torch.tensor(frames).permute(0, 3, 1, 2)))


@pytest.mark.parametrize(
    "kind, given, says",
    [
        ("image", np.zeros((28, 28, 5)), r"image: an image must be a Pillow image, an array .* got \(28, 28, 5\)"),
        ("image", np.full((28, 28), -1.5), r"floats from 0 to 1 \(pixels / 255\), got float64 from -1\.5 to -1\.5"),
        ("image", np.full((28, 28), np.nan), "floats from 0 to 1"),
        ("image", None, "got a NoneType"),
        ("image", np.zeros((0, 28)), r"got an empty one, \(0, 28\)"),
        ("image", np.zeros((3, 28, 28)), "channels come last in an array, first in a tensor"),
        ("points", np.zeros((0, 3)), "points: it has 0 points and a cloud takes two or more"),
        ("points", np.full((5, 3), np.nan), "of which 0 are finite"),
        ("points", np.zeros((5, 4)), "rows of 4 numbers without names"),
        ("events", np.zeros((5, 4)), "events: events must be a dict or a structured array of x, y, t and p"),
        ("events", dict(x=[1], y=[1], t=[0]), "it has no column p"),
        ("video", np.zeros((4, 64, 64)), r"a video must be an array \(frames, rows, columns, 3\)"),
        ("image", [], "expected one sample or more, got an empty list"),
        ("image", "nowhere.png", "no file or folder at nowhere.png"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*not finite")
def test_what_is_none_of_these_is_a_sentence(runs, digits, kind, given, says):
    model = digits if kind == "image" else ndformer.load(runs[kind])
    with pytest.raises(DataError, match=says):
        model(given)


def test_requests_from_several_threads_have_their_own_answers_and_layers(digits):
    pictures = [np.full((28, 28), 30 * i, np.uint8) for i in range(8)]
    expected = [(digits(one), digits.looks(one)) for one in pictures]

    def request(number):
        answer, looks = expected[number % 8]
        found = digits.looks(pictures[number % 8])
        return (
            len(found) == len(looks)
            and all(torch.equal(a.x, b.x) for a, b in zip(found, looks))
            and same(digits(pictures[number % 8]), answer)
        )

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(request, range(32)))


def test_it_shows_tokens_features_and_where_it_looks(digits, pixels):
    assert digits.tokens([pixels, pixels]).where.positions.shape[-1] == 2
    behind = digits.features(pixels)
    assert behind.features.shape == (1, 50, 16)
    attention = digits.attention(pixels)
    assert [tuple(one.shape) for one in attention] == [(1, 2, 50, 50)] * 2
    assert torch.allclose(attention[0].sum(-1), torch.ones(1, 2, 50))
    assert {"semantic", "distance", "direction"} <= set(digits.looks(pixels)[0].terms())


def test_it_is_a_plain_module(digits, pixels):
    answer = digits(pixels)
    for other in (copy.deepcopy(digits), pickle.loads(pickle.dumps(digits))):
        assert same(other(pixels), answer)
        assert not other.training
    assert digits.device == torch.device("cpu")
    assert isinstance(digits, nn.Module)
    assert "model.head.linear.weight" in dict(digits.named_parameters())


@pytest.mark.parametrize("resized", [True, False])
def test_a_list_may_have_pictures_of_any_sizes(digits, resized):
    model = copy.deepcopy(digits)
    if not resized:
        model.prepared.steps["image"] = model.prepared.steps["image"][-1:]
    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 256, size, dtype=np.uint8) for size in ((28, 28), (40, 20), (28, 28), (20, 40))]
    for answer, picture in zip(model(pictures), pictures):
        assert torch.allclose(answer.scores, model(picture).scores, atol=1e-5)


def test_in_16_bits_positions_and_weights_stay_exact(digits, pixels):
    exact = digits(pixels).scores
    low = copy.deepcopy(digits).bfloat16()
    assert 0 < (low(pixels).scores - exact).abs().max() < 0.02
    assert 0 < (low.features(pixels).features - digits.features(pixels).features).abs().max() < 0.2
    assert {p.dtype for p in low.parameters()} == {torch.float32}
    assert torch.equal(low.float()(pixels).scores, exact)


def test_a_file_alone_is_enough_of_either_kind(runs, digits, pixels, tmp_path):
    pytest.importorskip("safetensors")
    content = checkpoint.load(runs["image"])
    exported.export(tmp_path / "alone.safetensors", content)
    assert same(ndformer.load(tmp_path / "alone.safetensors")(pixels), digits(pixels))
    assert same(ndformer.load(runs["image"].parent)(pixels), digits(pixels))


@pytest.mark.parametrize(
    "config, says",
    [
        ("import os\n", "damaged"),
        ("model = __import__('os').system('true')\n", "damaged"),
        ("model = dict(type=TokenModel(", "damaged"),
        ("(" * 5000, "damaged"),
        ("model = dict(type='TokenModel')\n", "model"),
    ],
)
def test_a_config_in_a_strangers_checkpoint_is_data(tmp_path, config, says):
    path = saved(tmp_path, CONFIGS["image"], config=config)
    with pytest.raises((DataError, ConfigError), match=says):
        ndformer.load(path)


def test_modules_that_a_strangers_config_names_are_not_imported(tmp_path):
    (tmp_path / "surprise.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    text = checkpoint.load(saved(tmp_path, CONFIGS["image"]))["config"]
    path = saved(tmp_path, CONFIGS["image"], config=f"{text}custom_imports = dict(imports=['surprise'])\n")
    with pytest.raises(DataError, match="imports the module 'surprise'"):
        ndformer.load(path)
    assert not (tmp_path / "ran").exists()


def test_a_checkpoint_without_config_or_classes_says_what_to_give(tmp_path, pixels):
    path = saved(tmp_path, CONFIGS["image"])
    content = checkpoint.load(path)
    text = content.pop("config")
    checkpoint.save(path, content)
    with pytest.raises(DataError, match="give config=..., the config of the run"):
        ndformer.load(path)
    own = tmp_path / "configs" / "own.py"  # beside the weights it would be code of whoever gave them
    own.parent.mkdir()
    own.write_text(text)
    assert ndformer.load(path, config=own)(pixels).scores.shape == (10,)
    checkpoint.save(path, {key: value for key, value in content.items() if key != "classes"})
    with pytest.raises(DataError, match="expected .* class names, got no class names"):
        ndformer.load(path, config=own)


def test_another_models_weights_are_a_sentence(runs, tmp_path):
    content = checkpoint.load(runs["image"]) | dict(config=checkpoint.load(runs["points"])["config"])
    checkpoint.save(tmp_path / "mixed.pth", content)
    with pytest.raises(DataError, match="mixed.pth does not fit the model"):
        ndformer.load(tmp_path / "mixed.pth")
