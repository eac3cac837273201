"""tools/peek.py and tools/show_tokens.py on files of each modality."""

import json

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.errors import DataError
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.stream import Events
from ndformer.modalities.events.pictures.tokens import counts, in_a_row, spikes
from ndformer.modalities.image.pictures.tokens import separate_patches
from ndformer.modalities.pointcloud.pictures.clouds import draw_groups
from ndformer.modalities.video.pictures.tokens import tubelets
from tests.programs import CONFIGS
from tools import peek, show_tokens


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    home, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)).save(home / "photo.png")
    cloud = np.concatenate([rng.normal(size=(600, 3)), np.tile([0.0, 0.0, 1.0], (600, 1))], 1)
    np.save(home / "cloud.npy", cloud.astype(np.float32))
    n = 6000
    columns = rng.integers(0, 128, n), rng.integers(0, 128, n), np.sort(rng.integers(0, 400_000, n))
    write_aedat3(home / "hand.aedat", Events.from_arrays(*columns, rng.integers(0, 2, n), 128, 128))
    np.save(home / "events.npy", np.zeros(3, [("x", "<u2"), ("y", "<u2"), ("t", "<i8"), ("p", "<i1")]))
    return home


@pytest.fixture(scope="module")
def film(files):
    pytest.importorskip("av")
    from ndformer.modalities.video.stand_ins.ucf101 import write_avi

    frames = np.random.default_rng(0).integers(0, 256, (44, 48, 64, 3), dtype=np.uint8)
    write_avi(files / "film.avi", frames)
    return files / "film.avi"


def told(capsys, *arguments):
    peek.main([*map(str, arguments), "--json"])
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_peek_knows_each_kind(files, film, capsys):
    names = ["photo.png", "cloud.npy", "hand.aedat", "events.npy", "film.avi"]
    photo, cloud, hand, events, video = told(capsys, *(files / name for name in names))
    assert (photo["format"], photo["height"], photo["width"], photo["mode"]) == ("PNG", 32, 32, "RGB")
    assert (cloud["points"], cloud["normals"], cloud["odd"]) == (600, True, [])
    assert (hand["format"], hand["events"], hand["width"]) == ("AEDAT 3.1", 6000, 128)
    assert events["events"] == 3
    assert (video["frames"], video["height"], video["width"], video["odd"]) == (44, 48, 64, [])
    peek.main([str(files / name) for name in names])
    words = capsys.readouterr().out
    assert "normals            yes" in words
    assert "44" in words


def test_peek_finds_what_is_odd(files, film, tmp_path, capsys):
    Image.new("RGBA", (4, 4)).save(tmp_path / "a.png")
    np.save(tmp_path / "b.npy", np.repeat(np.array([[900.0, 0.0, 3.0], [901.0, 1.0, 3.0]]), 2, axis=0))
    (tmp_path / "c.avi").write_bytes(film.read_bytes()[:-30_000])
    image, cloud, video = told(capsys, tmp_path / "a.png", tmp_path / "b.npy", tmp_path / "c.avi")
    assert any("transparent" in one for one in image["odd"])
    assert any("all pixels are 255" in one for one in image["odd"])
    for part in ("2 points are at the place of another", "all points have one z", "far from the origin"):
        assert any(part in one for one in cloud["odd"])
    assert video["frames"] < 44 or video["odd"]  # it is shorter, and that is said
    with pytest.raises(SystemExit):
        peek.main([str(tmp_path / "gone.avi")])
    assert "gone.avi is missing" in capsys.readouterr().out


def shown(capsys, tmp_path, config, file, name):
    show_tokens.main([str(CONFIGS / config), str(file), "--sample", "--out", str(tmp_path / name)])
    with Image.open(tmp_path / name) as picture:
        return capsys.readouterr().out, picture.size, getattr(picture, "n_frames", 1)


def test_tokens_of_each_kind_are_shown(files, film, tmp_path, capsys):
    words, size, _ = shown(capsys, tmp_path, "cifar10_pape.py", files / "photo.png", "a.png")
    assert "image for ImagePatches: 64 tokens" in words
    assert min(size) > 300
    words, size, _ = shown(capsys, tmp_path, "modelnet40_pape.py", files / "cloud.npy", "p.png")
    assert "points for Points: " in words
    assert size == (1260, 420)
    words, size, _ = shown(capsys, tmp_path, "modelnet40_plain_pape.py", files / "cloud.npy", "b.png")
    assert "points for PointPatches: 64 tokens" in words
    assert size == (1260, 420)
    words, size, frames = shown(capsys, tmp_path, "ucf101_pape.py", film, "c.gif")
    assert "video for Tubelets: 60 tokens, and 1 without a position" in words
    assert frames == 10
    words, size, frames = shown(capsys, tmp_path, "dvsgesture_pape.py", files / "hand.aedat", "d.gif")
    assert "events for SpikingPatches:" in words
    assert frames > 5
    with Image.open(tmp_path / "d.gif") as moving:
        assert moving.info["duration"] == 150
    _, sheet, frames = shown(capsys, tmp_path, "ucf101_pape.py", film, "e.png")
    assert frames == 1
    assert sheet[0] > 6 * 200


def test_wrong_files_are_a_sentence(files, tmp_path):
    with pytest.raises(DataError, match="ends in .png or .gif"):
        show_tokens.main([str(CONFIGS / "cifar10_pape.py"), str(files / "photo.png"), "--out", "x.jpg"])
    with pytest.raises(DataError, match="no file or folder"):
        show_tokens.main([str(CONFIGS / "cifar10_pape.py"), "gone.png"])


def test_a_sensor_too_large_to_be_drawn_is_a_sentence():
    place = np.array([[0, 0], [4095, 4095]])
    with pytest.raises(DataError, match="got 4096 x 4096 patches of 16 pixels. Use a smaller sensor"):
        spikes(np.array([0, 1]), place, np.zeros((2, 1), int), 16, 1)


def test_patches_keep_their_pixels():
    pixels = np.random.default_rng(0).integers(0, 255, (6, 8, 3), dtype=np.uint8)
    picture = separate_patches(pixels, (3, 4))
    times = 320 // 8
    gap = times * 3 // 10
    for row in range(2):
        for column in range(2):
            top, left = gap + row * (3 * times + gap), gap + column * (4 * times + gap)
            piece = picture[top : top + 3 * times : times, left : left + 4 * times : times]
            assert np.array_equal(piece, pixels[row * 3 : row * 3 + 3, column * 4 : column * 4 + 4])
    assert (picture[:gap] == 255).all()


def test_the_bar_tells_the_tubelet():
    pictures = tubelets(np.zeros((6, 8, 8, 3), np.uint8), (2, 4, 4))
    lit = [np.flatnonzero((picture[-1] == (20, 90, 160)).all(-1)).mean() / picture.shape[1] for picture in pictures]
    assert np.allclose(lit, np.repeat([1 / 6, 1 / 2, 5 / 6], 2), atol=0.02)


def test_counts_are_of_tokens_polarities_and_pixels():
    cells = np.array([[0, 0, 5, -1], [2 * 2 * 4 - 1, 4, 8, 8]])  # patch 2, bins 2: ((p bins + b) 2 + y) 2 + x
    found = counts(cells, 2, 2)
    assert found.shape == (2, 2, 2, 2)
    assert found[0].tolist() == [[[2, 1], [0, 0]], [[0, 0], [0, 0]]]
    assert found[1].tolist() == [[[1, 0], [0, 0]], [[2, 0], [0, 1]]]


def test_points_have_the_color_of_their_center():
    cloud = np.random.default_rng(0).normal(size=(50, 3))
    picture = draw_groups(cloud, np.arange(50).reshape(2, 25), np.ones((2, 25), bool))
    assert picture.shape == (420, 1260, 3)
    red, green, _ = np.moveaxis(picture.astype(int), 2, 0)
    assert (red - green > 60).sum() > 500
    assert (green - red > 60).sum() > 500


def test_a_hundred_centers_have_colors_that_are_told_apart():
    """Colors are far from black, the color of centers, and from white."""
    rng = np.random.default_rng(0)
    middles = np.stack([*np.meshgrid(np.arange(10.0), np.arange(10.0)), np.zeros((10, 10))], -1).reshape(-1, 3)
    cloud = np.concatenate([middles, *(middles + rng.uniform(-0.4, 0.4, (100, 3)) for _ in range(5))])
    distance = np.linalg.norm(cloud[None] - middles[:, None], axis=2)
    index = np.argsort(distance, 1)[:, :9]  # which overlap
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ndformer.modalities.pointcloud.pictures.clouds.draw", lambda *given, **how: drawn.append(given))
        draw_groups(cloud, index, np.ones_like(index, bool))
    _, colors, _ = drawn[0]
    others = colors[np.setdiff1d(np.unique(index), np.arange(100))]
    assert others.max(1).min() > 120
    assert len(np.unique(others, axis=0)) == 100


def test_pictures_of_events_say_their_time_and_what_colors_mean():
    """The time bar moves to the right, and each picture has both colors in its legend."""
    time, place = np.linspace(0, 2_000_000, 48), np.zeros((48, 2), int)
    place[-1] = 3
    found = spikes(time, place, np.zeros((48, 1), int), 16, 1)
    ends = []
    for one in found:
        head = one[:24]
        ends.append(int(np.flatnonzero((head[-6] == (20, 90, 160)).all(1)).mean()))
        for color in ((200, 40, 40), (30, 80, 190)):
            assert (head == color).all(2).any()
    assert ends == sorted(set(ends))
    assert not np.array_equal(found[0][:16], found[1][:16])  # other times are written there
    row = in_a_row(found[:3])
    assert row.shape[1] == 3 * found[0].shape[1] + 2 * 5
    assert (row[:, found[0].shape[1] + 2] == 120).all()


def test_a_recording_of_few_tokens_is_reported_with_what_to_set(tmp_path, capsys):
    """An N-MNIST recording has 3 tokens with the defaults of custom_events."""
    rng, n = np.random.default_rng(0), 900
    columns = rng.integers(0, 34, n), rng.integers(0, 34, n), np.sort(rng.integers(0, 300_000, n))
    write_aedat3(tmp_path / "digit.aedat", Events.from_arrays(*columns, rng.integers(0, 2, n), 34, 34))
    few = r"events: a sample needs about 16 tokens or more, got \d \(a sample\)\..* Set a lower `threshold`"
    words = [str(CONFIGS / "custom_events.py"), str(tmp_path / "digit.aedat"), "--out", str(tmp_path / "out.png")]
    with pytest.warns(UserWarning, match=few):
        show_tokens.main(words)
    steps = "test_dataloader.dataset.transforms.0"
    smaller = [f"{steps}.threshold=8", f"{steps}.patch=4", "model.modalities.events.patch=4"]
    show_tokens.main([*words, "--cfg-options", *smaller])
    assert int(capsys.readouterr().out.rpartition("SpikingPatches: ")[2].split()[0]) >= 16
