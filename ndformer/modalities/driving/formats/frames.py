"""What nuScenes' sensors recorded, from its tables: scenes, samples, and the frames of its LiDAR and cameras."""

from dataclasses import dataclass

import numpy as np

from ndformer.framework.errors import DataError
from ndformer.modalities.driving.formats.classes import CAMERAS, LIDAR
from ndformer.modalities.driving.formats.poses import LEVEL
from ndformer.modalities.driving.formats.tables import Tables, flag, text, whole

NO = -1  # the number of what is not there
CHANNELS = [LIDAR, *CAMERAS]


@dataclass(frozen=True, eq=False)
class Frames:
    """Rows that know each other by their numbers. Poses are x y z and a quaternion w x y z; times are microseconds."""

    scene: np.ndarray  # (S,) names
    token: np.ndarray  # (N,) of samples
    scene_of: np.ndarray  # (N,)
    time: np.ndarray  # (N,)
    sensors: np.ndarray  # (N, 7) the frame of the LiDAR and of each camera
    file: np.ndarray  # (F,) of frames, in the data set's folder
    taken: np.ndarray  # (F,) when
    before: np.ndarray  # (F,) the frame of the same sensor before it
    car: np.ndarray  # (F, 7) where the car was
    mount: np.ndarray  # (F,) which of the next two it has
    mounts: np.ndarray  # (M, 7) where a sensor is in the car
    lens: np.ndarray  # (M, 3, 3) intrinsics, 0 of a LiDAR


def read_frames(tables: Tables) -> Frames:
    """All frames of the LiDAR, and those of key frames of cameras."""
    scenes = {row["token"]: row["name"] for row in tables.rows("scene", name=text)}
    place = {token: i for i, token in enumerate(scenes)}
    tokens: dict[str, int] = {}
    scene_of, times = [], []
    for row in tables.rows("sample", scene_token=text, timestamp=whole):
        scene_of.append(tables.found(place, row["scene_token"], "scene", "sample"))
        tables.add(tokens, row["token"], "sample")
        times.append(row["timestamp"])
    channel, mounts, lenses = _mounts(tables)
    sensors = np.full((len(tokens), len(CHANNELS)), NO)
    numbers: dict[str, int] = {}
    files, taken, before, poses, mount = [], [], [], [], []
    keys = dict(filename=text, timestamp=whole, is_key_frame=flag, prev=text, sample_token=text)
    for row in tables.rows("sample_data", calibrated_sensor_token=text, ego_pose_token=text, **keys):
        own, kind = tables.found(channel, row["calibrated_sensor_token"], "calibrated_sensor", "sample_data")
        if kind not in CHANNELS or (kind != LIDAR and not row["is_key_frame"]):
            continue
        if row["is_key_frame"]:
            sample = tables.found(tokens, row["sample_token"], "sample", "sample_data")
            sensors[sample, CHANNELS.index(kind)] = len(files)
        tables.add(numbers, row["token"], "sample_data")
        files.append(row["filename"])
        taken.append(row["timestamp"])
        before.append(row["prev"] if kind == LIDAR else "")
        poses.append(row["ego_pose_token"])
        mount.append(own)
    blind = np.flatnonzero(sensors[:, 0] == NO)
    if len(blind):
        raise DataError(
            f"{tables.path('sample_data')} has no key frame of {LIDAR} for {len(blind)} of {len(tokens)} samples, the "
            f"first is {list(tokens)[blind[0]]}: get nuScenes' metadata again"
        )
    rows = [tables.found(numbers, token, "sample_data", "sample_data") if token else NO for token in before]
    when, earlier = np.array(taken, np.int64), np.array(rows, np.int64)
    wrong = np.flatnonzero((earlier != NO) & (when[earlier] >= when))
    if len(wrong):
        raise DataError(
            f"{tables.path('sample_data')} has times out of order: {files[wrong[0]]} was not taken after "
            f"{files[earlier[wrong[0]]]}, which its 'prev' says: get nuScenes' metadata again"
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
    """By token: the number of a calibration and its channel; (M, 7) poses and (M, 3, 3) intrinsics."""
    sensors = {row["token"]: row["channel"] for row in tables.rows("sensor", channel=text)}
    known, mounts, lenses = {}, [], []
    numbers: dict[str, int] = {}
    for row in tables.rows("calibrated_sensor", sensor_token=text, translation=3, rotation=4):
        channel = tables.found(sensors, row["sensor_token"], "sensor", "calibrated_sensor")
        number = tables.add(numbers, row["token"], "calibrated_sensor")
        known[row["token"]] = number, channel
        mounts.append(row["translation"] + row["rotation"])
        lenses.append(_lens(tables, row) if channel in CAMERAS else np.zeros((3, 3)))
    posed = np.array(mounts, np.float64).reshape(-1, 7)
    _check_poses(tables, "calibrated_sensor", [*known], posed)
    return known, posed, np.array(lenses, np.float64).reshape(-1, 3, 3)


def _lens(tables: Tables, row: dict) -> np.ndarray:
    try:
        lens = np.array(row.get("camera_intrinsic"), np.float64)
    except (TypeError, ValueError, OverflowError):
        lens = np.zeros(0)
    # pinholes alone, as nuScenes' are
    if lens.shape != (3, 3) or not np.isfinite(lens).all() or min(lens[0, 0], lens[1, 1]) <= 0 or lens[2, 2] != 1:
        raise DataError(
            f"{tables.path('calibrated_sensor')} gives the camera {row['token']} the intrinsics "
            f"{row.get('camera_intrinsic')!r:.80}, which are no camera's: 3 x 3 numbers, the last row 0 0 1"
        )
    return lens


def _poses(tables: Tables, wanted: list[str]) -> np.ndarray:
    """(F, 7) of the car, under these tokens."""
    known: dict[str, int] = {}
    for token in wanted:
        known.setdefault(token, len(known))
    poses, seen = np.zeros((len(known), 7)), np.zeros(len(known), bool)
    for row in tables.rows("ego_pose", translation=3, rotation=4):
        number = known.get(row["token"])
        if number is not None:
            poses[number], seen[number] = row["translation"] + row["rotation"], True
    if not seen.all():
        tables.found({}, list(known)[int(seen.argmin())], "ego_pose", "sample_data")
    _check_poses(tables, "ego_pose", [*known], poses)
    return poses[[known[token] for token in wanted]]


def _check_poses(tables: Tables, name: str, tokens: list[str], poses: np.ndarray) -> None:
    """Finite, with rotations that are some."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = ~np.isfinite(poses).all(1) | ~(np.abs(np.linalg.norm(poses[:, 3:], axis=1) - 1) < LEVEL)
    if off.any():
        first = int(off.argmax())
        at, turn = poses[first, :3].tolist(), poses[first, 3:].tolist()
        raise DataError(
            f"{tables.path(name)} gives {tokens[first]} a pose at {at} with the rotation {turn}, which is none: a "
            "quaternion has a length of 1, and all numbers are finite. Get nuScenes' metadata again"
        )
