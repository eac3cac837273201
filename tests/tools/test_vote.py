"""tools/vote.py, and test.py --show-dir on scenes and objects: fragments, votes, resuming, output files."""

import csv
import json
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch
from PIL import Image

from ndformer.framework.answers.tables import write_table
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.loading import build_dataset
from ndformer.framework.errors import BadNumbers, DataError
from ndformer.framework.registry import TRANSFORMS
from ndformer.modalities.pointcloud import voting
from ndformer.modalities.pointcloud.datasets.scenes import SCANNET, ScanNet
from ndformer.modalities.pointcloud.formats.ply import parse_ply
from ndformer.modalities.pointcloud.voting import fragments, object_votes, scene_votes, variants
from tests.programs import run, save_untrained
from tools import predict, vote
from tools import test as test_tool

CONFIG = "configs/scannet_pape.py"


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("scannet"), np.random.default_rng(0)
    for name in ("train/scene0000_00", "val/scene0003_00", "val/scene0004_00"):
        (root / name).mkdir(parents=True)
        arrays = dict(
            coord=rng.uniform(0, 1, (250, 3)).astype(np.float32),
            color=rng.integers(0, 256, (250, 3), np.uint8),
            normal=rng.normal(size=(250, 3)).astype(np.float32),
            segment20=rng.integers(-1, 20, 250),
        )
        for file, values in arrays.items():
            np.save(root / name / f"{file}.npy", values)
    (root / "GENERATED_SAMPLE").write_text("")
    return root


@pytest.fixture(scope="module")
def trained(home):
    """An untrained model, and the arguments of programs."""
    cfg = load(CONFIG, [f"data_root={str(home)!r}"], None, True)
    model = save_untrained(home / "best.pth", cfg, list(SCANNET), head_std=0.5)
    return model, [CONFIG, str(home / "best.pth"), "--sample", "--data-root", str(home)]


def scenes_of(home):
    cfg = load(CONFIG, [f"data_root={str(home)!r}"], None, True)
    return ScanNet(home, "test", cfg.test_dataloader.dataset.transforms)


def test_fragments_take_one_point_of_each_cell_until_all_were_taken():
    cell = np.array([7, 3, 7, 7, 3, 9])
    parts = [part.tolist() for part in fragments(cell)]
    assert len(parts) == 3  # the most points in a cell
    for part in parts:
        assert sorted(cell[part]) == [3, 7, 9]
    assert [sum(i in part for part in parts) for i in range(6)] == [1, 2, 1, 1, 1, 3]


def test_there_are_thirteen_variants():
    found = list(variants())
    assert len(found) == 13
    assert len({(*m.ravel().tolist(), s) for m, s in found}) == 12  # mirrored along x and y is half a turn, once more
    assert np.array_equal(found[0][0], np.eye(3))
    assert sorted({s for _, s in found}) == [0.95, 1.0, 1.05]
    assert all(np.allclose(m @ m.T, np.eye(3)) for m, _ in found)


@pytest.mark.slow
def test_votes_are_summed_probabilities_whatever_the_batch(trained, home):
    model, _ = trained
    data = scenes_of(home)
    sample = data.read(data.records[0])
    one, four = (scene_votes(model, sample, data.transforms, batch) for batch in (1, 4))
    assert one == pytest.approx(four, rel=1e-4, abs=1e-5)
    times = one.sum(1)  # every point was seen under every look at least once
    assert times.min() > 13 - 1e-3
    assert times == pytest.approx(times.round(), abs=1e-3)


class Linear:
    """A linear stand-in for a model, which records its inputs."""

    def __init__(self, classes, channels):
        self.head = SimpleNamespace(classes=classes)
        self.weight = torch.randn(channels, classes, generator=torch.Generator().manual_seed(0))
        self.seen: list[Any] = []

    def test_scores(self, batch):
        clouds = list(batch["inputs"]["points"])
        self.seen += clouds
        found = [cloud @ self.weight for cloud in clouds]
        return found if self.head.classes == 20 else torch.stack([one.mean(0) for one in found])


def test_votes_of_scenes_look_by_look_and_fragment_by_fragment(home):
    """4 rotations x 3 scales and both mirrors; each has as many fragments as the fullest voxel has points."""
    data = scenes_of(home)
    sample, model = data.read(data.records[0]), Linear(20, 9)
    found = scene_votes(cast(Any, model), sample, data.transforms, 3)
    low, high = sample["points"].min(0), sample["points"].max(0)
    centered = sample["points"] - [*(low + high)[:2] / 2, low[2]]
    turns = [np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]]) for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))]
    total = np.zeros((250, 20))
    for turn, scale in [(t, s) for s in (1, 0.95, 1.05) for t in turns] + [(np.diag([-1, -1, 1]), 1)]:
        points, normals = (centered @ turn.T * scale).astype(np.float32), sample["normals"] @ turn.T
        voxel = np.floor(points.astype(np.float64) / 0.1)
        of = [np.flatnonzero((voxel == one).all(1)) for one in np.unique(voxel, axis=0)]
        for i in range(max(map(len, of))):
            part = np.array([members[i % len(members)] for members in of])
            middle = (points[part].min(0) + points[part].max(0))[:2] / 2
            moved = points[part] - [*np.round(middle / 0.1) * 0.1, 0]
            packed = np.concatenate([moved, sample["colors"][part] / 255, normals[part]], 1)
            total[part] += torch.from_numpy(packed @ model.weight.numpy()).softmax(-1).numpy()
    assert found == pytest.approx(total, abs=1e-3)


def test_votes_of_objects_are_one_as_it_is_and_nine_stretched_along_each_axis():
    rng, model = np.random.default_rng(0), Linear(40, 9)
    sample = {name: rng.normal(size=(600, 3)).astype(np.float32) for name in ("points", "normals")} | dict(index=3)
    steps = [dict(type="NormalizePoints"), dict(type="PackPoints", features=("points", "normals"))]
    transforms = [TRANSFORMS.create(one) for one in steps]
    found = object_votes(cast(Any, model), sample, transforms, 30, seed=0)
    assert len(model.seen) == 300
    assert np.array_equal(object_votes(cast(Any, Linear(40, 9)), sample, transforms, 1, seed=0)[0], found[0])
    for repeat, vote_of in enumerate(found):
        clouds = torch.stack(model.seen[10 * repeat : 10 * repeat + 10])
        assert vote_of == pytest.approx((clouds @ model.weight).mean(1).softmax(-1).sum(0).numpy(), rel=1e-4)
        times = clouds[:, :, :3] / clouds[0, :, :3]
        assert torch.equal(times[0], torch.ones(600, 3))
        assert float(times.std(1).max()) < 1e-3  # all points of a cloud alike
        assert torch.equal(clouds[:, :, 6:], clouds[:1, :, 6:].expand(10, -1, -1))  # normals stay, as in the recipe
    factors = (
        torch.stack(model.seen).unflatten(0, (30, 10))[:, 1:, 0, :3] / torch.stack(model.seen[::10])[:, None, 0, :3]
    )
    assert float(factors.min()) == pytest.approx(0.8, abs=0.01)
    assert float(factors.max()) == pytest.approx(1.2, abs=0.01)
    assert float(torch.corrcoef(factors.reshape(-1, 3).T).fill_diagonal_(0).abs().max()) < 0.2


def test_outputs_that_are_not_finite_have_no_vote(home):
    """NaN of fp16 was class 0, in the metrics and in what is submitted."""
    model, data = Linear(20, 9), scenes_of(home)
    model.weight[0, 3] = float("nan")
    with pytest.raises(BadNumbers, match="the model's output for .* is not finite"):
        scene_votes(cast(Any, model), data.read(data.records[0]), data.transforms, 3)


def test_votes_are_computed_in_the_precision_of_training(trained, home, monkeypatch):
    model, _ = trained
    data = scenes_of(home)
    sample = data.read(data.records[0])
    monkeypatch.setattr(voting, "variants", lambda: iter([(np.eye(3), 1.0)]))
    exact = scene_votes(model, sample, data.transforms)
    monkeypatch.setattr(model, "amp", torch.bfloat16)
    rounded = scene_votes(model, sample, data.transforms)
    assert rounded == pytest.approx(exact, abs=0.1 * float(exact.max()))
    assert not np.array_equal(rounded, exact)


@pytest.mark.slow
def test_scenes_are_kept_gone_on_with_and_refused_for_another_model(trained, home, tmp_path, capsys):
    model, arguments = trained
    out, upload = tmp_path / "votes", tmp_path / "upload"
    vote.main([*arguments, "--out", str(out), "--submit", str(upload)])
    said = capsys.readouterr().out
    assert "with voting: mIoU" in said
    assert "shower curtain" in said
    values = json.loads((out / "results.json").read_text())["test"]
    files = sorted(out.glob("scene*.npy"))
    assert len(files) == 2
    nyu = np.loadtxt(upload / "scene0003_00.txt", dtype=int)
    assert np.array_equal(nyu, np.array(list(SCANNET.values()))[np.load(files[0])])
    kept = files[1].stat().st_mtime_ns
    files[0].unlink()
    vote.main([*arguments, "--out", str(out)])
    assert "was saved before" in capsys.readouterr().out
    assert files[1].stat().st_mtime_ns == kept
    assert json.loads((out / "results.json").read_text())["test"] == values
    other = tmp_path / "other.pth"
    checkpoint.save(other, dict(model=model.state_dict(), epoch=9))
    with pytest.raises(DataError, match="predictions of another checkpoint"):
        vote.main([arguments[0], str(other), *arguments[2:], "--out", str(out)])
    with pytest.raises(DataError, match="predictions of another checkpoint or config"):
        vote.main([*arguments, "--out", str(out), "--cfg-options", "model.backbone.positions=grid"])
    np.save(files[1], np.load(files[1])[:-1])
    with pytest.raises(DataError, match="has labels of 249 points, but the scene of that name has 250: it belongs"):
        vote.main([*arguments, "--out", str(out)])
    with pytest.raises(DataError, match="--out: expected a folder"):
        vote.main(arguments)
    with pytest.raises(DataError, match="--submit is for scenes, --repeats for objects"):
        vote.main([*arguments, "--out", str(out), "--repeats", "2"])


def test_scenes_of_one_name_have_files_of_their_own(tmp_path):
    for area in ("area1", "area2"):
        (tmp_path / area / "office").mkdir(parents=True)
        np.save(tmp_path / area / "office" / "coord.npy", np.zeros((2, 3)))
    (tmp_path / "val.json").write_text('["area1/office", "area2/office"]')
    assert voting.names(ScanNet(tmp_path, "test")) == ["area1_office", "area2_office"]
    (tmp_path / "val.json").write_text('["area1/office"]')
    assert voting.names(ScanNet(tmp_path, "test")) == ["office"]


def test_scenes_whose_labels_are_hidden_are_submitted(trained, home, tmp_path, capsys):
    _, arguments = trained
    hidden = home / "test" / "scene0707_00"
    hidden.mkdir(parents=True)
    for name in ("coord", "color", "normal"):
        np.save(hidden / f"{name}.npy", np.load(home / "val" / "scene0003_00" / f"{name}.npy"))
    asked = ["--cfg-options", "test_dataloader.dataset.test_on=test"]
    vote.main([*arguments, "--out", str(tmp_path / "votes"), "--submit", str(tmp_path / "upload"), *asked])
    assert "mIoU" not in capsys.readouterr().out
    (file,) = (tmp_path / "upload").iterdir()
    assert file.name == "scene0707_00.txt"
    assert set(np.loadtxt(file, dtype=int)) <= set(SCANNET.values())
    assert len(file.read_text().splitlines()) == 250


@pytest.fixture
def objects(tmp_path):
    """The arguments for six objects, and their labels."""
    rng = np.random.default_rng(0)
    for kind in ("cone", "cup"):
        (tmp_path / kind).mkdir()
        for i in range(1, 4):
            np.savetxt(tmp_path / kind / f"{kind}_{i:04d}.txt", rng.normal(size=(600, 6)), "%.4f", ",")
    names = [f"{kind}_{i:04d}" for kind in ("cone", "cup") for i in range(1, 4)]
    for split in ("train", "test"):
        (tmp_path / f"modelnet40_{split}.txt").write_text("\n".join(names))
    (tmp_path / "modelnet40_shape_names.txt").write_text("cone\ncup\n")
    (tmp_path / "GENERATED_SAMPLE").write_text("")
    options = ["model.head.classes=2", "model.backbone.enc_depths=(1,1,1)"]
    cfg = load("configs/modelnet40_pape.py", [f"data_root={str(tmp_path)!r}", *options], "NoPE", True)
    save_untrained(tmp_path / "best.pth", cfg, ["cone", "cup"])
    arguments = ["configs/modelnet40_pape.py", str(tmp_path / "best.pth"), "--sample", "--data-root", str(tmp_path)]
    return [*arguments, "--encoding", "NoPE", "--cfg-options", *options], [0, 0, 0, 1, 1, 1]


def test_repeats_of_votes_on_objects_are_told_as_mean_and_spread(objects, capsys, monkeypatch):
    arguments, labels = objects
    right = [[1, 1, 0, 0, 1, 1], [1, 0, 0, 0, 1, 1], [1, 0, 0, 0, 1, 0]]  # of each repeat
    looked = iter(range(6))

    def votes(model, sample, transforms, repeats, seed):
        i = next(looked)
        return [np.eye(2)[labels[i] if right[repeat][i] else 1 - labels[i]] for repeat in range(repeats)]

    with pytest.raises(DataError, match="--submit is for scenes, --repeats for objects"):
        vote.main([*arguments, "--submit", "out"])
    monkeypatch.setattr(voting, "object_votes", votes)
    vote.main([*arguments, "--repeats", "3"])
    said = capsys.readouterr().out.strip()
    accuracies = np.mean(right, 1)
    assert said == (
        f"with voting: accuracy {accuracies.mean():.4f}, sd {accuracies.std(ddof=1):.4f}, "
        f"{accuracies.min():.4f} to {accuracies.max():.4f} over 3 repeats of 10 votes"
    )


def test_votes_on_objects_are_kept_told_and_gone_on_from(objects, tmp_path, capsys, monkeypatch):
    arguments, labels = objects
    taken = []

    def votes(model, sample, transforms, repeats, seed):
        taken.append(i := sample["index"])
        return [np.eye(2)[labels[i] if i else 1 - labels[i]] * 10 for _ in range(repeats)]

    monkeypatch.setattr(voting, "object_votes", votes)
    monkeypatch.setattr(vote, "PRINT_EVERY", 0.0)
    out = tmp_path / "votes"
    vote.main([*arguments, "--out", str(out)])
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("1/6 objects, accuracy so far 0.0000: 17%, about ")
    assert said[-2:] == ["with voting: accuracy 0.8333", str(out / "predictions.csv")]
    with (out / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["truth"], row["prediction"]) for row in rows[:2]] == [("cone", "cup"), ("cone", "cone")]
    assert json.loads((out / "results.json").read_text())["test"]["accuracy"] == pytest.approx(5 / 6)
    (out / "00003.npy").unlink()
    vote.main([*arguments, "--out", str(out)])
    assert taken == [0, 1, 2, 3, 4, 5, 3]
    assert "with voting: accuracy 0.8333" in capsys.readouterr().out
    with pytest.raises(DataError, match="another checkpoint or config"):
        vote.main([*arguments, "--out", str(out), "--repeats", "2"])


def test_a_cloud_of_ones_own_is_labeled(trained, home, tmp_path, capsys):
    _, arguments = trained
    scene = ScanNet(home, "test").read(home / "val" / "scene0003_00")
    np.savetxt(tmp_path / "mine.txt", np.concatenate([scene["points"], scene["normals"]], 1))
    gray = "test_dataloader.dataset.transforms.4.missing=dict(colors=0.5)"  # a text file holds no colors
    options = ["--cfg-options", gray, "--show-dir", str(tmp_path / "seen")]
    run(predict.main, *arguments[:2], tmp_path / "mine.txt", "--top", "20", *arguments[2:], *options)
    said = capsys.readouterr().out.splitlines()[0].split("  ")
    assert sum(float(one.split()[-2]) for one in said[1:]) == pytest.approx(100, abs=10)
    assert sorted(p.name for p in (tmp_path / "seen").iterdir()) == ["mine.png", "mine_prediction.ply"]


def test_show_dir_has_clouds_and_pictures_of_prediction_truth_and_error(trained, home, tmp_path, capsys):
    model, arguments = trained
    run(test_tool.main, *arguments, "--classwise", "--show-dir", tmp_path / "seen", "--show-count", "1")
    assert "otherfurniture" in capsys.readouterr().out  # the table of classes
    (picture,) = (tmp_path / "seen").glob("*.png")
    name = picture.stem.partition("_")[2]
    with Image.open(picture) as image:
        assert image.size[1] > image.size[0]
    cfg = load(CONFIG, [f"data_root={str(home)!r}"], None, True)
    data = build_dataset(cfg, "test")
    number = next(i for i, record in enumerate(data.records) if record.name == name)
    (found,) = model(**collate([data[number]]), mode="predict")
    vertices, _ = parse_ply((picture.parent / f"000_{name}_error.ply").read_bytes())
    sample = data.read(data.records[number])
    assert np.array_equal(np.stack([vertices[a] for a in "xyz"], 1), sample["points"])
    red = vertices["red"] == 213
    assert np.array_equal(red, (found.predicted != found.truth).numpy() & (sample["labels"] >= 0))
    assert len(list(picture.parent.iterdir())) == 4
    write_table(tmp_path / "a.csv", [found], data.classes)
    assert (tmp_path / "a.csv").read_text().count("\n") >= 2  # columns, and the classes of the scene
