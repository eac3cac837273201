"""Descriptions of UCF101's lists of videos and classes."""

from collections import Counter
from pathlib import Path

from ndformer.framework.data.describe import Describer, Description
from ndformer.framework.registry import DESCRIBERS
from ndformer.modalities.video.datasets.ucf101 import CLASS, HOMES, VIDEO, read_rows


@DESCRIBERS.register_module()
class VideoLists(Describer):
    names = r"classInd\.txt|(train|test)list\d\d\.txt"

    def describe(self, path: Path, rows: int) -> Description:
        if path.name == "classInd.txt":
            found = read_rows(path, CLASS)
            kind = dict(format="UCF101 classes", classes=len(found))
            right = sorted(int(number) for number, _ in found) == list(range(1, len(found) + 1))
            odd = [] if right else ["its numbers are not 1, 2, 3 and so on"]
            first = [dict(number=int(number), name=name) for number, name in found[:rows]]
            return kind, odd, first
        found = read_rows(path, VIDEO)
        classes = Counter(name for _, name, _ in found)
        groups = {(name, group) for _, name, group in found}
        kind = dict(format="UCF101 list", videos=len(found), groups=len(groups))
        homes = [path.parent.parent / home for home in HOMES]
        missing = [file for file, _, _ in found if not any((home / file).is_file() for home in homes)]
        odd = [f"{len(missing)} of {len(found)} videos are missing, the first is {missing[0]}"] if missing else []
        twice = len(found) - len(set(found))
        odd += [f"{twice} videos are listed more than once"] if twice else []
        first = [dict(video=file, group=int(group)) for file, _, group in found[:rows]]
        return kind | dict(classes=dict(classes)), odd if found else ["it lists no videos"], first
