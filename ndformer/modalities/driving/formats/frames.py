"""Sensor data in nuScenes' tables: scenes, samples, and the frames of the LiDAR and the cameras."""

from dataclasses import dataclass

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.formats.poses import LEVEL
from ndformer.modalities.driving.formats.tables import Tables, flag, integer, text

NO = -1  # index of a missing row
CHANNELS = [LIDAR, *CAMERAS]


@dataclass(frozen=True, eq=False)
class Frames:
    """Tables whose rows refer to each other by index. Poses are x y z and a quaternion w x y z, times microseconds."""

    scene: np.ndarray  # (S,) names
    token: np.ndarray  # (N,) of samples
    scene_of: np.ndarray  # (N,) the scene of each sample
    time: np.ndarray  # (N,)
    sensors: np.ndarray  # (N, 7) the frames of the LiDAR and of each camera
    file: np.ndarray  # (F,) paths of frames in the dataset's folder
    taken: np.ndarray  # (F,) times of frames
    before: np.ndarray  # (F,) the previous frame of the same sensor
    car: np.ndarray  # (F, 7) poses of the car
    mount: np.ndarray  # (F,) index of the calibration
    mounts: np.ndarray  # (M, 7) poses of a sensor in the car
    lens: np.ndarray  # (M, 3, 3) intrinsics, 0 for a LiDAR


def read_frames(tables: Tables) -> Frames:
    """Read all frames of the LiDAR, and the key frames of cameras."""
    scenes = {row["token"]: row["name"] for row in tables.rows("scene", name=text)}
    place = {token: i for i, token in enumerate(scenes)}
    tokens: dict[str, int] = {}
    scene_of, times = [], []
    for row in tables.rows("sample", scene_token=text, timestamp=integer):
        scene_of.append(tables.lookup(place, row["scene_token"], "scene", "sample"))
        tables.add(tokens, row["token"], "sample")
        times.append(row["timestamp"])
    channel, mounts, lenses = _mounts(tables)
    sensors = np.full((len(tokens), len(CHANNELS)), NO)
    numbers: dict[str, int] = {}
    files, timestamps, before, poses, mount = [], [], [], [], []
    keys = dict(filename=text, timestamp=integer, is_key_frame=flag, prev=text, sample_token=text)
    for row in tables.rows("sample_data", calibrated_sensor_token=text, ego_pose_token=text, **keys):
        calibration, kind = tables.lookup(channel, row["calibrated_sensor_token"], "calibrated_sensor", "sample_data")
        if kind not in CHANNELS or (kind != LIDAR and not row["is_key_frame"]):
            continue
        if row["is_key_frame"]:
            sample = tables.lookup(tokens, row["sample_token"], "sample", "sample_data")
            sensors[sample, CHANNELS.index(kind)] = len(files)
        tables.add(numbers, row["token"], "sample_data")
        files.append(row["filename"])
        timestamps.append(row["timestamp"])
        before.append(row["prev"] if kind == LIDAR else "")
        poses.append(row["ego_pose_token"])
        mount.append(calibration)
    blind = np.flatnonzero(sensors[:, 0] == NO)
    if len(blind):
        raise DataError(
            f"{tables.path('sample_data')} has no key frame of {LIDAR} for {len(blind)} of {len(tokens)} samples, the "
            f"first is {list(tokens)[blind[0]]}: get nuScenes' metadata again"
        )
    rows = [tables.lookup(numbers, token, "sample_data", "sample_data") if token else NO for token in before]
    when, earlier = np.array(timestamps, np.int64), np.array(rows, np.int64)
    wrong = np.flatnonzero((earlier != NO) & (when[earlier] >= when))
    if len(wrong):
        raise DataError(
            f"{tables.path('sample_data')} has times out of order: {files[wrong[0]]} was not taken after "
            f"{files[earlier[wrong[0]]]}, its 'prev': get nuScenes' metadata again"
        )
    return Frames(
        np.array(list(scenes.values()), "U"),
        np.array(list(tokens), "U"),
        np.array(scene_of, np.int64),
        np.array(times, np.int64),
        sensors,
        np.array([name.encode() for name in files], "S"),
        when,
        earlier,
        _poses(tables, poses),
        np.array(mount, np.int64),
        mounts,
        lenses,
    )


def _mounts(tables: Tables) -> tuple[dict[str, tuple[int, str]], np.ndarray, np.ndarray]:
    """Return by token the index of a calibration and its channel; poses (M, 7) and intrinsics (M, 3, 3)."""
    sensors = {row["token"]: row["channel"] for row in tables.rows("sensor", channel=text)}
    calibrations, mounts, lenses = {}, [], []
    numbers: dict[str, int] = {}
    for row in tables.rows("calibrated_sensor", sensor_token=text, translation=3, rotation=4):
        channel = tables.lookup(sensors, row["sensor_token"], "sensor", "calibrated_sensor")
        number = tables.add(numbers, row["token"], "calibrated_sensor")
        calibrations[row["token"]] = number, channel
        mounts.append(row["translation"] + row["rotation"])
        lenses.append(_lens(tables, row) if channel in CAMERAS else np.zeros((3, 3)))
    posed = np.array(mounts, np.float64).reshape(-1, 7)
    _check_poses(tables, "calibrated_sensor", [*calibrations], posed)
    return calibrations, posed, np.array(lenses, np.float64).reshape(-1, 3, 3)


def _lens(tables: Tables, row: dict) -> np.ndarray:
    try:
        lens = np.array(row.get("camera_intrinsic"), np.float64)
    except (TypeError, ValueError, OverflowError):
        lens = np.zeros(0)
    # only pinhole cameras, as in nuScenes
    if lens.shape != (3, 3) or not np.isfinite(lens).all() or min(lens[0, 0], lens[1, 1]) <= 0 or lens[2, 2] != 1:
        raise DataError(
            f"{tables.path('calibrated_sensor')} gives the camera {row['token']} the intrinsics "
            f"{row.get('camera_intrinsic')!r:.80}: they must be 3 x 3 numbers with the last row 0 0 1"
        )
    return lens


def _poses(tables: Tables, tokens: list[str]) -> np.ndarray:
    """Return the poses (F, 7) of the car for tokens."""
    index: dict[str, int] = {}
    for token in tokens:
        index.setdefault(token, len(index))
    poses, is_set = np.zeros((len(index), 7)), np.zeros(len(index), bool)
    for row in tables.rows("ego_pose", translation=3, rotation=4):
        number = index.get(row["token"])
        if number is not None:
            poses[number], is_set[number] = row["translation"] + row["rotation"], True
    if not is_set.all():
        tables.lookup({}, list(index)[int(is_set.argmin())], "ego_pose", "sample_data")
    _check_poses(tables, "ego_pose", [*index], poses)
    return poses[[index[token] for token in tokens]]


def _check_poses(tables: Tables, name: str, tokens: list[str], poses: np.ndarray) -> None:
    """Raise unless all poses are finite, with unit quaternions."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = ~np.isfinite(poses).all(1) | ~(np.abs(np.linalg.norm(poses[:, 3:], axis=1) - 1) < LEVEL)
    if off.any():
        first = int(off.argmax())
        place, turn = poses[first, :3].tolist(), poses[first, 3:].tolist()
        raise DataError(
            f"{tables.path(name)} gives {tokens[first]} a pose at {place} with the rotation {turn}: a "
            "quaternion must have length 1, and all numbers must be finite. Get nuScenes' metadata again"
        )
