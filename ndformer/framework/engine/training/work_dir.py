"""The files of a run in its work dir: whether a run may start there, and their removal before it does."""

from pathlib import Path

from ndformer.framework.engine.training import checkpoint
from ndformer.framework.engine.training.console import LOG
from ndformer.framework.engine.training.owner import NAME, Owner, this
from ndformer.framework.errors import DataError, shorten_list
from ndformer.framework.foreign import check_not_special
from ndformer.framework.system import atomic

RESULTS, CONFIG = "results.json", "config.py"
CHECKPOINTS = checkpoint.LAST, checkpoint.PREVIOUS, checkpoint.BEST
WRITTEN = (  # all that a run writes, in the order of removal: results never lie beside another run's config
    RESULTS,
    "classes.txt",
    "confusion_matrix.png",
    "pr_curves.png",
    "parity.png",
    "error_by_size.png",
    "curves.png",
    "report.html",
    "shown",
    "vis_data",
    "profile",
    *CHECKPOINTS,
    "config.json",
    CONFIG,
    LOG,  # last, as a folder with it is that of a run
)


def begun(folder: Path) -> bool:
    return any(checkpoint.exists(folder / name) for name in (checkpoint.LAST, checkpoint.PREVIOUS))


def check_free(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise unless a run may start or resume in the folder; while another run uses it, the lock raises instead."""
    owner = Owner.read(folder / NAME)
    if owner is not None and owner.process not in (None, this()) and not owner.process.has_exited:
        return
    if resume and not begun(folder):
        check_not_special(folder / checkpoint.LAST)
        raise DataError(f"nothing to resume in {folder}: it has no {checkpoint.LAST}", "start without --resume")
    if resume or overwrite:
        return
    if begun(folder) or (folder / RESULTS).exists():
        raise DataError(
            f"{folder} already contains a run",
            "--resume continues it, --overwrite replaces it, --work-dir names another folder",
        )
    own = [name for name in WRITTEN if (folder / name).exists()]
    if own and not (folder / LOG).exists():
        raise DataError(
            f"{folder} contains {shorten_list(own, 4)}, which a run would replace, and no {LOG} of a run",
            "--work-dir names another folder, --overwrite removes them",
        )


def clear(folder: Path) -> None:
    """Remove all files that a run has written, and no others."""
    for name in WRITTEN:
        atomic.remove(folder / name)
        forms = checkpoint.forms(folder / name) if name in CHECKPOINTS else []
        for form in forms:  # a checkpoint of several processes is a folder
            atomic.remove(form)
            atomic.remove(atomic.replaced_path(form))
