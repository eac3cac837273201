"""Generated nuScenes sets with all that its metric has rules for: racks, ties, boxes without points, attributes and
neighbors; and predictions for them."""

import json
from pathlib import Path

import numpy as np

from ndformer.modalities.driving.datasets.nuscenes.rules import Boxes
from ndformer.modalities.driving.datasets.nuscenes.submission import write_submission
from ndformer.modalities.driving.datasets.nuscenes.truth import read_split
from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CLASSES, RACK
from ndformer.modalities.driving.stand_ins.nuscenes import Writer

VERSION, SPLIT = "v1.0-mini", "mini_val"


def write(folder: Path, seed: int) -> Path:
    """A set, and beside its tables found.json, predictions."""
    folder.mkdir(parents=True)
    Writer(folder, seed, VERSION).write(train=0, val=1 + seed % 2, moments=3 + seed % 2)
    rng = np.random.default_rng(seed)
    disturb(folder / VERSION, rng)
    tokens, truth, _, _ = read_split(folder, VERSION, SPLIT)
    write_submission(folder / "found.json", guesses(truth, len(tokens), rng), tokens)
    return folder / "found.json"


def disturb(home: Path, rng: np.random.Generator) -> None:
    rows = json.loads((home / "sample_annotation.json").read_text())
    kinds = {row["token"]: row["name"] for row in json.loads((home / "category.json").read_text())}
    instances = json.loads((home / "instance.json").read_text())
    category = {row["token"]: kinds[row["category_token"]] for row in instances}
    by_token = {row["token"]: row for row in rows}
    racks = []
    for row in rows:
        if rng.random() < 0.3:
            row["num_lidar_pts"] = 0
        if rng.random() < 0.2:
            row["attribute_tokens"] = []
        if row["next"] and rng.random() < 0.3:  # neither knows the other
            by_token[row["next"]]["prev"] = row["next"] = ""
        if category[row["instance_token"]].rpartition(".")[2] in ("bicycle", "motorcycle") and rng.random() < 0.4:
            place = (np.array(row["translation"]) + rng.normal(0, 0.7, 3)).tolist()
            token = f"rack-{row['token']}"
            racks.append(row | dict(token=token, translation=place, size=[3.0, 3.0, 2.0], instance_token=token))
            racks[-1] |= dict(prev="", next="", attribute_tokens=[])
            kind = next(one for one, name in kinds.items() if name == RACK)
            instances.append(instances[0] | dict(token=token, category_token=kind))
    (home / "sample_annotation.json").write_text(json.dumps(rows + racks))
    (home / "instance.json").write_text(json.dumps(instances))


def guesses(truth: Boxes, samples: int, rng: np.random.Generator) -> Boxes:
    """Near the truth, some more than once, and others anywhere."""
    rows = np.sort(rng.choice(len(truth), int(1.2 * len(truth))))
    near, many = truth[rows], len(rows)
    known = np.nan_to_num(near.velocity)
    other = rng.random(many) < 0.15
    return Boxes(
        np.where(other, rng.integers(0, samples, many), near.sample),
        np.where(other, rng.integers(0, len(CLASSES), many), near.label),
        near.center + rng.normal(0, 1, (many, 3)) * rng.choice([0, 0.3, 1.5], (many, 1)),
        near.size * rng.uniform(0.7, 1.4, (many, 3)),
        near.yaw + rng.normal(0, 0.5, many) * rng.choice([0, 1, 4], many),
        np.where(rng.random((many, 1)) < 0.1, np.nan, known + rng.normal(0, 1, (many, 2))),
        np.where(rng.random(many) < 0.3, rng.integers(-1, len(ATTRIBUTES), many), near.attribute),
        np.where(rng.random(many) < 0.5, rng.integers(0, 5, many) / 4, rng.random(many)),
        np.zeros(0, np.int64),
    )
