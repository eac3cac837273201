"""Our nuScenes metric and reader beside those of nuScenes' devkit, which gets an environment of its own (make devkit).

The devkit wants numpy 1, and is installed without what it wants; under numpy 2 it computes the same.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.registry import DATASETS
from ndformer.modalities.driving.datasets.nuscenes import average
from ndformer.modalities.driving.datasets.nuscenes.metric import measured
from ndformer.modalities.driving.datasets.nuscenes.submission import read_submission
from ndformer.modalities.driving.datasets.nuscenes.truth import read_split
from ndformer.modalities.driving.formats.annotations import RACKS
from tests.devkit.sets import SPLIT, VERSION, write

NEEDED = (
    "numpy", "pyquaternion", "tqdm", "cachetools", "descartes", "fire", "Pillow", "opencv-python-headless",
    "matplotlib", "scipy", "scikit-learn", "shapely",
)  # fmt: skip
NAMES = dict(ATE="trans_err", ASE="scale_err", AOE="orient_err", AVE="vel_err", AAE="attr_err")
EQUAL = 1e-9


def environment(home: Path) -> Path:
    """The Python of one that has the devkit."""
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        for packages in (["--no-deps", "nuscenes-devkit==1.2.0"], NEEDED):
            subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python


def ours(folder: Path) -> dict[str, Any]:
    tokens, truth, racks, ego = read_split(folder, VERSION, SPLIT)
    classes = measured(truth, read_submission(folder / "found.json", tokens), ego, racks)
    return average.summary(classes) | dict(classes=average.class_numbers(classes))


def apart(own: dict[str, Any], theirs: dict[str, Any]) -> float:
    """The largest difference of a number."""
    pairs = [(own["mAP"], theirs["mean_ap"]), (own["NDS"], theirs["nd_score"])]
    pairs += [(own[f"m{name}"], theirs["tp_errors"][key]) for name, key in NAMES.items()]
    for kind, row in own["classes"].items():
        pairs += [(row[f"AP{float(at):g}"], value) for at, value in theirs["label_aps"][kind].items()]
        errors = theirs["label_tp_errors"][kind]
        assert all((row[name] is None) == bool(np.isnan(errors[key])) for name, key in NAMES.items()), kind
        pairs += [(row[name], errors[key]) for name, key in NAMES.items() if row[name] is not None]
    return max(abs(a - b) for a, b in pairs)


def boxes_apart(folder: Path, theirs: dict[str, Any]) -> float:
    """The largest difference of a box in the LiDAR's frame, or of a velocity on the map."""
    data = DATASETS.create(dict(type="NuScenes", data_root=folder, version=VERSION, split="test"))
    index, worst = data.table, 0.0
    for record in data.records:
        sample, rows = data.read(record), index.rows(record.number)
        kept = (index.boxes.points[rows] > 0) & (index.boxes.label[rows] != RACKS)
        given = np.array(theirs["boxes"][sample["token"]])[kept]
        boxes = sample["boxes"].astype(np.float64)
        told = np.column_stack([boxes[:, :6], np.cos(boxes[:, 6]), np.sin(boxes[:, 6])])
        given[:, 6:] /= np.linalg.norm(given[:, 6:], axis=1, keepdims=True)
        worst = max(worst, float(np.abs(told - given).max(initial=0)))
    tokens = [row["token"] for row in json.loads((folder / VERSION / "sample_annotation.json").read_text())]
    samples = [row["sample_token"] for row in json.loads((folder / VERSION / "sample_annotation.json").read_text())]
    number = {token: i for i, token in enumerate(index.frames.token.tolist())}
    order = np.argsort([number[sample] for sample in samples], kind="stable")
    given = np.array([theirs["velocity"][tokens[i]] for i in order])
    assert (np.isnan(given) == np.isnan(index.boxes.velocity)).all()
    return max(worst, float(np.nanmax(np.abs(given - index.boxes.velocity))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", type=int, default=20)
    parser.add_argument("--environment", type=Path, default=Path(".devkit"), help="made where it is not there")
    given = parser.parse_args()
    python = environment(given.environment.absolute())
    with tempfile.TemporaryDirectory() as scratch:
        folders = [Path(scratch) / f"{seed}" for seed in range(given.sets)]
        for seed, folder in enumerate(folders):
            write(folder, seed)
        out, script = Path(scratch) / "theirs.json", Path(__file__).with_name("theirs.py")
        subprocess.run([python, script, out, *folders], check=True)
        theirs = json.loads(out.read_text())
        own = [ours(folder) for folder in folders]
        numbers = max(apart(one, theirs[str(folder)]) for one, folder in zip(own, folders))
        boxes = max(boxes_apart(folder, theirs[str(folder)]) for folder in folders)
    spread = [f"{f([one['NDS'] for one in own]):.3f}" for f in (min, max)]
    print(
        f"{given.sets} sets, NDS {' to '.join(spread)}: numbers differ by {numbers:.1e} at most, boxes by {boxes:.1e}"
    )
    sys.exit(numbers > EQUAL or boxes > 1e-4)  # samples have boxes in float32


if __name__ == "__main__":
    main()
