"""What a run writes into its work dir: the whole list, so that nothing of it is left where a run is overwritten."""

import contextlib
import re
from pathlib import Path

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.console import LOG
from ndformer.framework.engine.training.owner import NAME, Owner, this
from ndformer.framework.errors import DataError
from ndformer.framework.system import atomic

RESULTS, CONFIG = "results.json", "config.py"
WRITTEN = (  # in the order in which it is taken away: no result may stand beside the config of another run
    RESULTS,
    "classes.txt",
    "confusion_matrix.png",
    "pr_curves.png",
    "curves.png",
    "report.html",
    "shown",
    "vis_data",
    checkpoint.LAST,
    checkpoint.PREVIOUS,
    checkpoint.BEST,
    LOG,
    "config.json",
    CONFIG,
)


def begun(folder: Path) -> bool:
    return any((folder / name).is_file() for name in (checkpoint.LAST, checkpoint.PREVIOUS))


def check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """A sentence unless a run may begin there, or go on. Where another is at work, the lock has it."""
    there = Owner.read(folder / NAME)
    if there is not None and there.process not in (None, this()) and not there.process.gone:
        return
    if resume and not begun(folder):
        raise DataError(f"nothing to resume in {folder}: it has no {checkpoint.LAST}", "start without --resume")
    if begun(folder) and not (resume or overwrite):
        raise DataError(
            f"{folder} holds a run already", "--resume goes on, --overwrite starts anew, --work-dir names another"
        )


def clear(folder: Path) -> None:
    """Take away all that a run has written, and nothing else."""
    for name in WRITTEN:
        atomic.remove(folder / name)
    for logs in folder.glob("????????_??????"):  # mmengine's, one folder for each start: runs of before have them
        if re.fullmatch(r"\d{8}_\d{6}", logs.name):
            atomic.remove(logs / f"{logs.name}.log")
            with contextlib.suppress(OSError):  # there is something of somebody else's in it
                logs.rmdir()
