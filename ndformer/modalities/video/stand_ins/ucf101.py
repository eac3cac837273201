"""The stand-in of UCF101: videos of a thing that moves, drawn in moving.py."""

from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.video.formats.writing import write_avi
from ndformer.modalities.video.stand_ins.baselines import baselines
from ndformer.modalities.video.stand_ins.moving import WAYS, film, scene

# Groups of a class, videos of a group, frames of a video. These are as many as the paper's first, 0, to its last, 41:
# so what a model sees of a film played backwards are the same frames.
GROUPS, CLIPS, FRAMES = 25, 3, 42
HELD = 7  # groups of a test list: 1 to 7 in fold 1, 8 to 14 in fold 2, 15 to 21 in fold 3, as in the real set


@stand_in(dict(type="UCF101"), baselines)
def ucf101(folder: Path, seed: int = 0, groups: int = GROUPS, clips: int = CLIPS, frames: int = FRAMES) -> None:
    """750 videos of 160 x 120 pixels, ten ways in which a thing can move."""
    lists = folder / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(WAYS, 1)))
    rows: list[tuple[str, int, int]] = []
    for way, name in enumerate(WAYS):
        (folder / "UCF-101" / name).mkdir(parents=True)
        for group in range(1, groups + 1):
            rng = np.random.default_rng((seed, way, group))
            place = scene(rng)
            for clip in range(1, clips + 1):
                file = f"{name}/v_{name}_g{group:02d}_c{clip:02d}.avi"
                write_avi(folder / "UCF-101" / file, film(way, frames, rng, place))
                rows.append((file, way + 1, group))
    for fold in (1, 2, 3):
        held = range((fold - 1) * HELD + 1, fold * HELD + 1)
        test = "".join(f"{file}\n" for file, _, group in rows if group in held)
        train = "".join(f"{file} {label}\n" for file, label, group in rows if group not in held)
        (lists / f"testlist{fold:02d}.txt").write_text(test)
        (lists / f"trainlist{fold:02d}.txt").write_text(train)
