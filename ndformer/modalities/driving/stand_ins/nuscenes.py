"""Stand-in of nuScenes: generated drives in nuScenes' tables and files, with the names of its scenes."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.driving.formats.classes import ATTRIBUTES, CATEGORIES, LIDAR, RACK
from ndformer.modalities.driving.formats.poses import inverse, quaternion
from ndformer.modalities.driving.formats.splits import VERSIONS, split_scenes
from ndformer.modalities.driving.formats.tables import TABLES
from ndformer.modalities.driving.stand_ins.baselines import baselines
from ndformer.modalities.driving.stand_ins.car import HEIGHT, ROOF, WIDTH, Drive, Mount, mounts, picture, scan
from ndformer.modalities.driving.stand_ins.streets import Street, street

KEY, SCANS = 0.5, 2  # seconds between key frames; LiDAR frames from one key frame to the next
BEGIN = 1_530_000_000_000_000  # microseconds
LATE = 0.02  # seconds of delay of a camera after the LiDAR
CATEGORY = {name: category for category, name in reversed(CATEGORIES.items())}  # the first of each class


@stand_in(dict(type="NuScenes"), baselines)
def nuscenes(
    folder: Path, seed: int = 0, version: str = "v1.0-trainval", train: int = 80, val: int = 16, moments: int = 4
) -> None:
    """Write 80 + 16 scenes of 4 moments, each with six images of 160 x 96 pixels and a LiDAR at 4 scans per second."""
    Writer(folder, seed, version).write(train, val, moments)


class Writer:
    """Writes tables and the files they refer to."""

    def __init__(self, folder: Path, seed: int, version: str) -> None:
        self.folder, self.seed, self.version = folder, seed, version
        self.tables: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}

    def write(self, train: int, val: int, moments: int) -> None:
        for name in sorted({*CATEGORIES, RACK}):
            self.row("category", name, name=name, description="generated")
        for name in ATTRIBUTES:
            self.row("attribute", name, name=name, description="generated")
        self.row("visibility", "all", level="v80-100", description="generated")
        first, *further_splits = VERSIONS[self.version].values()
        names = sorted(split_scenes(first))[:train] + [
            name for split in further_splits for name in sorted(split_scenes(split))[:val]
        ]
        logs = [self.scene(name, number, moments) for number, name in enumerate(names)]
        self.row("map", "all", log_tokens=logs, category="semantic_prior", filename="maps/all.png")
        (self.folder / "maps").mkdir(parents=True)
        Image.new("L", (8, 8), 255).save(self.folder / "maps" / "all.png")
        home = self.folder / self.version
        home.mkdir()
        for name, rows in self.tables.items():
            (home / f"{name}.json").write_text(json.dumps(rows, indent=0))

    def token(self, *parts: object) -> str:
        return hashlib.md5("/".join(map(str, (self.seed, *parts))).encode(), usedforsecurity=False).hexdigest()

    def row(self, table: str, *parts: object, **values: Any) -> str:
        token = self.token(table, *parts)
        self.tables[table].append(dict(token=token, **values))
        return token

    def scene(self, name: str, number: int, moments: int) -> str:
        """Write a scene and return the token of its log."""
        rng, seconds = np.random.default_rng((self.seed, number)), KEY * (moments - 1)
        around, drive, sensors = street(rng, seconds), Drive.somewhere(rng, seconds), mounts(rng)
        about = dict(vehicle="generated", date_captured="2026-01-01", location="singapore-onenorth")
        log = self.row("log", name, logfile=name, **about)
        scene = self.token("scene", name)
        samples = [self.token("sample", name, i) for i in range(moments)]
        ends = dict(first_sample_token=samples[0], last_sample_token=samples[-1], nbr_samples=moments)
        self.row("scene", name, name=name, description="generated", log_token=log, **ends)
        for i in range(moments):
            stamp = BEGIN + number * 10**8 + round(1e6 * KEY * i)
            links = dict(prev=samples[i - 1] if i else "", next=samples[i + 1] if i + 1 < moments else "")
            self.row("sample", name, i, timestamp=stamp, scene_token=scene, **links)
        start = BEGIN + number * 10**8
        counts = [self.sensor(name, mount, around, drive, start, moments, rng) for mount in sensors]
        self.annotations(name, around, drive, counts[0], moments)
        return log

    def sensor(
        self, name: str, mount: Mount, around: Street, drive: Drive, start: int, moments: int, rng: np.random.Generator
    ) -> list[np.ndarray]:
        """Write all frames of a sensor; return the LiDAR points on each object at each key frame."""
        channel, lidar = mount.channel, mount.channel == LIDAR
        kind = dict(channel=channel, modality="lidar" if lidar else "camera")
        if self.token("sensor", channel) not in {row["token"] for row in self.tables["sensor"]}:
            self.row("sensor", channel, **kind)
        posed = dict(translation=mount.place, rotation=mount.turn, camera_intrinsic=mount.lens)
        calibration = self.row("calibrated_sensor", name, channel, sensor_token=self.token("sensor", channel), **posed)
        steps, counts = SCANS if lidar else 1, []
        frames = (moments - 1) * steps + 1
        for i in range(frames):
            time = KEY * i / steps + LATE * (not lidar)
            key, stamp = i % steps == 0, start + round(1e6 * time)
            ending = "pcd.bin" if lidar else "jpg"
            file = f"{'samples' if key else 'sweeps'}/{channel}/{name}__{channel}__{stamp}.{ending}"
            (self.folder / file).parent.mkdir(parents=True, exist_ok=True)
            met = self.frame(self.folder / file, mount, around, drive, time, rng)
            counts += [met] if key else []
            car = drive.street @ drive.pose(time)
            turn = dict(translation=car[:3, 3].tolist(), rotation=quaternion(car[:3, :3]).tolist())
            pose = self.row("ego_pose", name, channel, i, timestamp=stamp, **turn)
            links = dict(prev=self.token("sample_data", name, channel, i - 1) if i else "")
            links |= dict(next=self.token("sample_data", name, channel, i + 1) if i + 1 < frames else "")
            sample = self.token("sample", name, -(-i // steps))
            links |= dict(sample_token=sample, ego_pose_token=pose, calibrated_sensor_token=calibration)
            size = dict(height=0 if lidar else HEIGHT, width=0 if lidar else WIDTH, fileformat=ending[:3])
            links |= dict(filename=file, timestamp=stamp, is_key_frame=key)
            self.row("sample_data", name, channel, i, **links, **size)
        return counts

    def frame(
        self, path: Path, mount: Mount, around: Street, drive: Drive, time: float, rng: np.random.Generator
    ) -> np.ndarray:
        """Write a frame, and return the number of its points on each object."""
        boxes, back = around.moved_boxes(time), inverse(drive.pose(time) @ mount.pose)  # from the street to the sensor
        if mount.channel == LIDAR:
            local = boxes.copy()
            local[:, :3] = boxes[:, :3] @ back[:3, :3].T + back[:3, 3]
            local[:, 6] += np.arctan2(back[1, 0], back[0, 0])
            points, hit = scan(local, ROOF, rng)
            points.tofile(path)
            return np.bincount(hit[hit >= 0], minlength=len(boxes))
        image = picture(boxes, around.colors, back, np.array(mount.lens), (HEIGHT, WIDTH), rng)
        image.save(path, quality=90)
        return np.zeros(0, np.int64)

    def annotations(self, name: str, around: Street, drive: Drive, counts: Iterable[np.ndarray], moments: int) -> None:
        for k, kind in enumerate(around.names):
            tokens = [self.token("sample_annotation", name, k, i) for i in range(moments)]
            ends = dict(first_annotation_token=tokens[0], last_annotation_token=tokens[-1], nbr_annotations=moments)
            self.row("instance", name, k, category_token=self.token("category", CATEGORY[kind]), **ends)
        for i, met in enumerate(counts):
            boxes = around.moved_boxes(KEY * i)
            for k, attribute in enumerate(around.attributes):
                place = drive.street @ np.array([*boxes[k, :3], 1.0])
                turn = np.arctan2(drive.street[1, 0], drive.street[0, 0]) + boxes[k, 6]
                links = dict(sample_token=self.token("sample", name, i), instance_token=self.token("instance", name, k))
                links |= dict(prev=self.token("sample_annotation", name, k, i - 1) if i else "")
                links |= dict(next=self.token("sample_annotation", name, k, i + 1) if i + 1 < moments else "")
                links |= dict(attribute_tokens=[self.token("attribute", attribute)] if attribute else [])
                links |= dict(visibility_token=self.token("visibility", "all"))
                links |= dict(translation=place[:3].tolist(), size=boxes[k, 3:6].tolist())
                links |= dict(rotation=[float(np.cos(turn / 2)), 0.0, 0.0, float(np.sin(turn / 2))])
                counted = dict(num_lidar_pts=int(met[k]), num_radar_pts=0)
                self.row("sample_annotation", name, k, i, **links, **counted)
