"""tools/eval.py nuscenes, peek and make_sample on driving data."""

import json
from typing import Any

import numpy as np
import pytest

from ndformer.framework.data.describe import describe
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from ndformer.modalities.driving.answer import Boxes3D
from ndformer.modalities.driving.datasets.nuscenes.metric import NuScenes as Metric
from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes, counted
from ndformer.modalities.driving.datasets.nuscenes.submission import write_submission
from ndformer.modalities.driving.datasets.nuscenes.truth import read_split
from ndformer.modalities.driving.formats.classes import CLASSES
from ndformer.modalities.driving.stand_ins.baselines import about, baselines, targets
from ndformer.modalities.driving.stand_ins.nuscenes import Writer
from tools import eval as tool


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("tools") / "nuscenes"
    home.mkdir()
    Writer(home, 0, "v1.0-mini").write(train=1, val=1, moments=2)
    return home


def measured(home, found, *options):
    tool.main(["nuscenes", str(home), str(found), "--version", "v1.0-mini", "--split", "mini_val", *options])


def test_a_submission_is_measured_offline(home, tmp_path, capsys):
    tokens, truth, racks, ego = read_split(home, "v1.0-mini", "mini_val")
    asked = truth[counted(truth, ego, racks)]
    told = dict(score=np.full(len(asked), 0.5), points=np.zeros(0), velocity=asked.velocity + [3, 4])
    perfect = Boxes(**asked.parts | told)
    write_submission(tmp_path / "found.json", perfect, tokens)
    measured(home, tmp_path / "found.json", "--out", str(tmp_path / "x.json"))
    values = json.loads((tmp_path / "x.json").read_text())
    assert json.loads(capsys.readouterr().out) == values
    assert list(values) == ["mAP", "NDS", "mATE", "mASE", "mAOE", "mAVE", "mAAE", "classes"]
    there = {CLASSES[label] for label in asked.label}
    assert {name for name, row in values["classes"].items() if row["AP"] == pytest.approx(1)} == there
    assert values["mAP"] == pytest.approx(len(there) / 10)
    speeds = [values["classes"][name]["AVE"] for name in there]
    assert [one for one in speeds if one is not None] == pytest.approx([5] * (len(speeds) - speeds.count(None)))
    assert values["classes"]["barrier"]["AVE"] is None
    write_submission(tmp_path / "none.json", Boxes.none(), tokens)
    measured(home, tmp_path / "none.json")
    nothing = json.loads(capsys.readouterr().out)
    assert (nothing["mAP"], nothing["NDS"], nothing["mATE"]) == (0, 0, 1)


def test_what_cannot_be_measured_is_told(home, tmp_path):
    with pytest.raises(DataError, match="v1.0-mini has no split 'val', did you mean 'mini_val'"):
        tool.main(["nuscenes", str(home), "x.json", "--version", "v1.0-mini"])
    with pytest.raises(DataError, match="x.json is missing: export it again"):
        measured(home, tmp_path / "x.json")
    with pytest.raises(DataError, match="v1.0-trainval has no tables: put nuScenes' v1.0-trainval there"):
        tool.main(["nuscenes", str(home), "x.json"])


def test_peek_tells_of_scans_tables_and_predictions(home, tmp_path):
    scan = sorted((home / "samples/LIDAR_TOP").iterdir())[0]
    told = describe(scan, 3)
    points = np.fromfile(scan, "<f4").reshape(-1, 5)
    assert (told["format"], told["points"], told["rings"]) == ("LiDAR scan (nuScenes)", len(points), 20)
    assert told["x"] == pytest.approx([points[:, 0].min(), points[:, 0].max()], abs=1e-3)
    assert len(told["first"]) == 3
    assert told["odd"] == []
    (tmp_path / "cut.pcd.bin").write_bytes(scan.read_bytes()[:47])
    assert describe(tmp_path / "cut.pcd.bin", 3)["odd"] == ["7 bytes at its end are no row of 5 numbers: it is cut off"]
    (tmp_path / "none.pcd.bin").write_bytes(b"")
    assert describe(tmp_path / "none.pcd.bin", 3)["odd"] == ["it holds no points"]
    table = home / "v1.0-mini" / "sample_annotation.json"
    rows = json.loads(table.read_text())
    told = describe(table, 2)
    assert (told["format"], told["rows"]) == ("nuScenes table (sample_annotation)", len(rows))
    assert told["first"][0]["token"] == rows[0]["token"]
    (tmp_path / "sample.json").write_text(json.dumps([rows[0], rows[0]])[:-1])
    odd = describe(tmp_path / "sample.json", 2)["odd"]
    assert odd == ["after 2 rows the list ends without ]", "1 rows have the token of another one"]
    write_submission(tmp_path / "found.json", Boxes.none(), ["a", "b"])
    told = describe(tmp_path / "found.json", 3)
    assert (told["format"], told["samples"], told["boxes"]) == ("nuScenes predictions", 2, 0)
    assert told["odd"] == ["2 of 2 samples have no boxes"]


def test_the_stand_in_is_the_same_for_a_seed_and_another_for_another(tmp_path):
    content = {}
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        (tmp_path / name).mkdir()
        Writer(tmp_path / name, seed, "v1.0-mini").write(train=1, val=0, moments=1)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        content[name] = [path.read_bytes() for path in files]
    assert content["a"] == content["b"]
    assert content["a"] != content["c"]


def test_neither_sensor_tells_all_and_nothing_tells_nothing(home):
    """Blur the classes of the truth as a LiDAR does, and its places as cameras do."""
    options = dict(type="NuScenes", data_root=home, version="v1.0-mini", holdout=0)
    train, test = (DATASETS.create(options | dict(split=split)) for split in ("train", "test"))
    values = dict(baselines(train, test))
    there = len(np.unique(np.concatenate([test.present(i) for i in range(len(test))]))) / 10
    assert values["nothing (the usual places), mAP"] < 0.2 * there
    assert 0.1 * there < values["LiDAR alone, at best, mAP"] < 0.8 * there
    assert 0.1 * there < values["cameras alone, at best, mAP"] < 0.95 * there
    both = Metric()
    for i in range(len(test)):
        boxes, labels = targets(test, i)
        told: dict[str, Any] = dict(boxes=np.nan_to_num(boxes), labels=labels, scores=np.full(len(labels), 0.5))
        both.process({}, [Boxes3D(sample=about(test, i), **told)])
    whole = both.compute_metrics(both.results)
    assert whole["mAP"] == pytest.approx(there)
    assert values["nothing (the usual places), NDS"] < 0.5 * whole["NDS"]
    assert values["LiDAR alone, at best, NDS"] < 0.95 * whole["NDS"]
    assert values["cameras alone, at best, NDS"] < 0.95 * whole["NDS"]
