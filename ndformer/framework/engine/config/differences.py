"""What two configs say differently, and whether a run may go on with another one."""

from collections.abc import Iterator
from typing import Any

from mmengine.config import Config

from ndformer.framework.encoding.base import FROM_DATA
from ndformer.framework.engine.config.data_root import absolute, following
from ndformer.framework.engine.config.schema import completed
from ndformer.framework.errors import DataError
from ndformer.framework.system import processes

NO_MATTER = ("work_dir", "visualizer", "train_cfg.checkpoint_every", "train_cfg.detect_anomaly")  # to what is computed
ENDINGS = (".num_workers", ".timeout", ".cache", ".cache_limit")


def changes(old: Any, new: Any, at: str = "") -> Iterator[tuple[str, Any, Any]]:
    """(place, what it was, what it is), place by place."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old | new:
            yield from changes(old.get(key), new.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(old, (list, tuple)) and isinstance(new, (list, tuple)) and len(old) == len(new):
        for i, (one, other) in enumerate(zip(old, new)):
            yield from changes(one, other, f"{at}.{i}")
    elif old != new:
        yield at, old, new


def that_matter(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """The changes after which a run would compute something else. What the run before has measured is none."""
    old, new = (following(absolute(completed(one))) for one in (old, new))  # runs of before do not know all keys
    found = changes(old, new)
    return [
        (at, was, now)
        for at, was, now in found
        if at not in NO_MATTER and not at.endswith(ENDINGS) and not _is_from_data(at, now)
    ]


def _is_from_data(at: str, value: Any) -> bool:
    """Whether training takes a value from the data: 'auto' and 'spread', a number of classes that is not given."""
    if value is None:
        return at.startswith("model.head.") and at.endswith(".classes")
    return isinstance(value, str) and value in FROM_DATA


def check_resumable(cfg: Config, state: dict[str, Any], allow_change: bool) -> None:
    """A sentence if the rest of a run would be of another run than its beginning."""
    before, now = state["settings"], cfg.to_dict()
    epochs, was = cfg.train_cfg.max_epochs, before["train_cfg"]["max_epochs"]
    if epochs < state["epoch"]:
        raise DataError(
            f"train_cfg.max_epochs is {epochs}, but {state['epoch']} epochs are done: give {state['epoch']} or more"
        )
    changed = [c for c in that_matter(before, now) if c[0] != "train_cfg.max_epochs"]
    if state["processes"] != processes.count():
        changed.append(("processes", state["processes"], processes.count()))
    if changed and not allow_change:
        listed = "\n".join(f"  {at}: was {old!r:.60}, is {new!r:.60}" for at, old, new in changed)
        sentence = f"the config is not that of the run to resume:\n{listed}"
        raise DataError(sentence, "--allow-config-change goes on all the same")
    if epochs != was:
        print(f"max_epochs was {was} and is {epochs}: the schedule is that of {epochs} epochs from here on")
    for at, old, new in changed:
        print(f"{at} was {old!r:.60}, is {new!r:.60}")
