"""tools/show_attention.py on each modality, and errors."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.engine.config.load import load
from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.stream import Events
from tests.programs import CONFIGS, save_untrained
from tools import show_attention

SMALL = ["model.backbone.dim=16", "model.backbone.depth=2", "model.backbone.heads=2"]
HOSTILE = "<img src=x onerror=alert(1)> 'quoted' $\\frac{1}{2}$.png"
EVENTS = [("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("p", "<i1")]
PTV3 = [f"model.backbone.{key}" for key in ("enc_depths=(1,1)", "enc_channels=(16,16)", "enc_heads=(2,4)", "window=16")]
MODELS = {
    "image": ("cifar10_pape", SMALL),
    "cloud": ("modelnet40_plain_pape", [*SMALL, "model.modalities.points.centers=8", "model.backbone.drop_path=0.0"]),
    "windows": ("modelnet40_pape", PTV3),
    "video": ("ucf101_pape", SMALL),
    "events": ("dvsgesture_pape", SMALL),
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home, rng = tmp_path_factory.mktemp("home"), np.random.default_rng(0)
    for kind, (name, options) in MODELS.items():
        cfg = load(CONFIGS / f"{name}.py", options, sample=True)
        save_untrained(home / f"{kind}.pth", cfg, [f"class {i} $x$ <b>" for i in range(cfg.model.head.classes)])
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(home / HOSTILE)
    cloud = rng.normal(size=(600, 3))
    np.save(home / "cloud.npy", np.concatenate([cloud, cloud / np.linalg.norm(cloud, axis=1)[:, None]], 1))
    (home / "film").mkdir()
    for i in range(24):
        Image.fromarray(rng.integers(0, 256, (48, 64, 3), dtype=np.uint8)).save(home / "film" / f"{i:03}.png")
    n = 6000
    columns = rng.integers(0, 64, n), rng.integers(0, 64, n), np.sort(rng.integers(0, 400_000, n))
    write_aedat3(home / "hand.aedat", Events.from_arrays(*columns, rng.integers(0, 2, n), 128, 128))
    return home


@pytest.fixture
def show(home, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)

    def show(kind, files, *words):
        name, options = MODELS[kind]
        names = map(str, files if isinstance(files, list) else [files])
        config, weights = str(CONFIGS / f"{name}.py"), str(home / f"{kind}.pth")
        show_attention.main([config, weights, *names, "--sample", *words, "--cfg-options", *options])
        return capsys.readouterr().out.split("\n")[:-1]

    return show


def frames(path):
    with Image.open(path) as gif:
        return gif.n_frames


def test_names_and_classes_are_words_in_pictures(show, home, tmp_path):
    assert show("image", home / HOSTILE, "--parts") == ["attention.png"]
    assert (tmp_path / "attention.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_cloud_is_drawn_and_turns(show, home, tmp_path):
    assert show("cloud", home / "cloud.npy", "--query", "0.1,0,0", "--layer", "1") == ["attention.png"]
    assert show("windows", home / "cloud.npy", "--layer", "2", "--head", "4", "--out", "a.gif") == ["a.gif"]
    assert frames(tmp_path / "a.gif") == 24


@pytest.mark.slow
def test_a_video_moves_and_has_a_sheet(show, home, tmp_path):
    assert show("video", home / "film", "--layer", "1", "--head", "2", "--query", "1,0,0") == [
        "attention.png",
        "attention.gif",
    ]
    assert frames(tmp_path / "attention.gif") > 2


@pytest.mark.slow
def test_events_move(show, home, tmp_path):
    assert show("events", home / "hand.aedat", "--layer", "2", "--head", "1", "--out", "a.gif") == ["a.gif"]
    assert frames(tmp_path / "a.gif") == 24


def test_z_scores_are_drawn_and_told(show, home):
    *layers, out = show("image", home / HOSTILE, "--z-scores")
    assert out == "z_scores.png"
    assert len(layers) == 2
    assert all(-1 < float(word) < 1 for line in layers for word in line.split()[2:])
    with pytest.raises(DataError, match="--z-scores has all layers, heads and tokens, got --layer: leave it out"):
        show("image", home / HOSTILE, "--z-scores", "--layer", "1")


@pytest.mark.filterwarnings("ignore:.*has no events")
@pytest.mark.parametrize(
    "kind, write, sentence",
    [
        ("image", lambda path: path.with_suffix(".png").write_bytes(b"\x89PNG"), "cannot be read as an image"),
        ("cloud", lambda path: path.with_suffix(".npy").write_bytes(b"\x93NUMPY"), "cannot be read as a point cloud"),
        ("events", lambda path: np.save(path.with_suffix(".npy"), np.zeros(0, EVENTS)), "has no tokens"),
    ],
)
def test_what_is_no_sample_is_a_sentence(show, tmp_path, kind, write, sentence):
    write(tmp_path / "x")
    (file,) = tmp_path.glob("x.*")
    with pytest.raises(DataError, match=sentence) as found:
        show(kind, file)
    assert "\n" not in str(found.value)


def test_wishes_that_do_not_fit_are_a_sentence(show, home):
    with pytest.raises(DataError, match=r"does not move, got"):
        show("image", home / HOSTILE, "--out", "a.gif")
    with pytest.raises(DataError, match="expected one sample, got 2"):
        show("image", [home / HOSTILE, home / HOSTILE])
    with pytest.raises(DataError, match="--query X,Y,Z"):
        show("windows", home / "cloud.npy", "--query", "class")
