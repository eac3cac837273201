"""Stand-in of UCF101: videos of a moving object, drawn in moving.py."""

from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.video.formats.writing import write_avi
from ndformer.modalities.video.stand_ins.baselines import baselines
from ndformer.modalities.video.stand_ins.moving import MOTIONS, appearance, film

# Groups of a class, videos of a group, frames of a video. The frames are those between the paper's first (0) and last
# (41), so that the model sees the same frames of a video and its reverse.
GROUPS, CLIPS, FRAMES = 25, 3, 42
TEST_GROUPS = 7  # groups of a test list: 1 to 7 in fold 1, 8 to 14 in fold 2, 15 to 21 in fold 3, as in UCF101


@stand_in(dict(type="UCF101"), baselines)
def ucf101(folder: Path, seed: int = 0, groups: int = GROUPS, clips: int = CLIPS, frames: int = FRAMES) -> None:
    """Write 750 videos of 160 x 120 pixels, of an object that moves in ten ways."""
    lists = folder / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("".join(f"{i} {name}\n" for i, name in enumerate(MOTIONS, 1)))
    rows: list[tuple[str, int, int]] = []
    for motion, name in enumerate(MOTIONS):
        (folder / "UCF-101" / name).mkdir(parents=True)
        for group in range(1, groups + 1):
            rng = np.random.default_rng((seed, motion, group))
            look = appearance(rng)
            for clip in range(1, clips + 1):
                file = f"{name}/v_{name}_g{group:02d}_c{clip:02d}.avi"
                write_avi(folder / "UCF-101" / file, film(motion, frames, rng, look))
                rows.append((file, motion + 1, group))
    for fold in (1, 2, 3):
        test_groups = range((fold - 1) * TEST_GROUPS + 1, fold * TEST_GROUPS + 1)
        test = "".join(f"{file}\n" for file, _, group in rows if group in test_groups)
        train = "".join(f"{file} {label}\n" for file, label, group in rows if group not in test_groups)
        (lists / f"testlist{fold:02d}.txt").write_text(test)
        (lists / f"trainlist{fold:02d}.txt").write_text(train)
