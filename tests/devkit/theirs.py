"""nuScenes' own devkit on sets that compare.py has made: run by the Python of its environment, knows nothing of ours.

python theirs.py OUT.json FOLDER...
"""

import json
import sys
import tempfile

from nuscenes import NuScenes  # pyright: ignore[reportMissingImports]
from nuscenes.eval.common.config import config_factory  # pyright: ignore[reportMissingImports]
from nuscenes.eval.detection.evaluate import DetectionEval  # pyright: ignore[reportMissingImports]

out, *folders = sys.argv[1:]
found = {}
for folder in folders:
    data = NuScenes("v1.0-mini", folder, verbose=False)
    with tempfile.TemporaryDirectory() as scratch:
        config = config_factory("detection_cvpr_2019")
        judge = DetectionEval(data, config, f"{folder}/found.json", "mini_val", scratch, verbose=False)
        found[folder] = judge.evaluate()[0].serialize()
    samples = {row["token"]: row for row in data.sample}
    lidar = {token: row["data"]["LIDAR_TOP"] for token, row in samples.items()}
    boxes = {token: data.get_sample_data(lidar[token]) for token in samples}
    found[folder]["boxes"] = {
        token: [[*box.center, *box.wlh, *box.orientation.rotation_matrix[:2, 0]] for box in some[1]]
        for token, some in boxes.items()
    }
    found[folder]["velocity"] = {
        row["token"]: data.box_velocity(row["token"])[:2].tolist() for row in data.sample_annotation
    }
with open(out, "w") as file:
    json.dump(found, file)
