"""The state of a run: what its checkpoints contain, and how a run resumes from them bit for bit."""

import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ndformer.framework.data.fingerprint import check_same_data
from ndformer.framework.engine.config.data_root import absolute
from ndformer.framework.engine.config.differences import check_resumable
from ndformer.framework.engine.training import checkpoint, nonfinite
from ndformer.framework.engine.training.optim import regrouped
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.engine.training.runner import Runner
from ndformer.framework.errors import BadNumbers, DataError
from ndformer.framework.model import TokenModel
from ndformer.framework.system import atomic, processes


def save(trainer: Runner) -> None:
    """Write last.pth with the state of the run; the file before it becomes previous.pth."""
    share_statistics(trainer)
    content = _state(trainer) | _metadata(trainer, trainer.history.metrics)
    _write(trainer, checkpoint.LAST, content, None if trainer.last_is_damaged else checkpoint.PREVIOUS)
    trainer.last_is_damaged = False
    trainer.timer.restart()


def share_statistics(trainer: Runner) -> None:
    """Give all processes the buffers of rank 0, in the model and in its average.

    BatchNorm has running statistics of each process without sync_batchnorm, and after steps in which a process lacked a
    modality. Training does not read them, so a run is the same however often it saves.
    """
    wait_staged(trainer)
    names = {name for name, _ in trainer.model.named_buffers()}
    processes.broadcast(trainer.model.buffers())
    if trainer.ema is not None:
        processes.broadcast(value for name, value in trainer.ema.average.items() if name in names)


def save_best(trainer: Runner, metrics: dict[str, float]) -> None:
    """Write best.pth with the weights that are validated."""
    _write(trainer, checkpoint.BEST, dict(model=trainer.model.state_dict(), **_metadata(trainer, metrics)))


def sharded_saver(model: TokenModel) -> Any:
    """Return the writer of checkpoints as folders if the model is sharded over processes, else None."""
    if _templates(model) is None:
        return None
    from ndformer.framework.engine.training import sharded  # imports torch.distributed.checkpoint

    return sharded.Saver()


def wait_staged(trainer: Runner) -> None:
    """Wait until the tensors of a checkpoint that is being written may change."""
    if trainer.saver is not None:
        trainer.saver.wait_staged()


def wait_written(trainer: Runner) -> None:
    """Wait until all checkpoints are complete, and remove those that they replace in another form."""
    if trainer.saver is not None:
        trainer.saver.wait_written()
    if processes.rank() == 0:
        for name in (checkpoint.LAST, checkpoint.PREVIOUS, checkpoint.BEST):
            for older in checkpoint.forms(trainer.folder / name)[1:]:
                atomic.remove(older)


def load_best(trainer: Runner) -> dict[str, Any]:
    """Load the best weights into the model; return the content of their checkpoint."""
    path = trainer.folder / checkpoint.BEST
    best = checkpoint.load(path, _templates(trainer.model))
    checkpoint.load_weights(trainer.model, best, path)
    return best


def _templates(model: TokenModel) -> dict[str, Tensor] | None:
    """Return the weights of a sharded model, with whose placements checkpoints are loaded; None for other models."""
    weights = model.state_dict()
    return weights if any(map(processes.is_sharded, weights.values())) else None


def restore(trainer: Runner) -> None:
    """Resume from the newest checkpoint that is intact, or raise if it is of another run."""
    templates = _templates(trainer.model)
    path, state = checkpoint.load_newest(trainer.folder, templates)
    checkpoints = processes.gather_objects(f"{path.name} of step {state['iter']}")
    if len({*checkpoints}) > 1:
        raise DataError(
            f"{trainer.folder}: expected the same checkpoint in all processes, got {', '.join(checkpoints)} (in order "
            "of rank). Wait until the file system shows all hosts the same files"
        )
    trainer.last_is_damaged = path.stem != Path(checkpoint.LAST).stem  # it must not replace the intact one
    trainer.call_hook("after_load_checkpoint", checkpoint=state)
    check_resumable(trainer.cfg, state, trainer.allow_config_change)
    check_same_data(state, trainer.data, _classes(trainer), trainer.allow_data_change)
    _check_best(trainer.folder, trainer.model, state["history"], trainer.history.main, templates)
    _report_threads(state.get("threads"))
    state = _in_new_batches(trainer, state)
    checkpoint.load_weights(trainer.model, state, path)
    if trainer.ema is not None:
        average = checkpoint.check_weights(trainer.model, dict(model=state["ema"] or state["model"]), path)
        weights = trainer.model.state_dict()  # whose shards may be in CPU memory
        trainer.ema.average = {name: value.to(weights[name].device) for name, value in average.items()}
    scheduled = {"lr"} | ({"betas"} if trainer.learning_rate.schedule.beta1(0, 2) is not None else set())
    _restore_optimizer(trainer.optim_wrapper, state, path, scheduled)
    settings = absolute(trainer.cfg.to_dict())
    same_hooks = settings.get("custom_hooks") == state["settings"].get("custom_hooks")
    trainer.hooks.load_state_dict(state.get("hooks", {}), same_hooks)
    trainer.epoch, trainer.iter, trainer.batch = state["epoch"], state["iter"], state["batch"]
    trainer.seconds, trainer.history.epochs = state["seconds"], state["history"]
    trainer.progress.restore(state["progress"])
    for split, loader in trainer.loaders.items():
        loader.bad |= state["bad"].get(split, {})
    within = f", {trainer.batch} batches into the next" if trainer.batch else ""
    print(f"resumed after epoch {trainer.epoch} of {trainer.max_epochs}{within} from {path.name}")


def _in_new_batches(trainer: Runner, state: dict[str, Any]) -> dict[str, Any]:
    """Return a state at the same place of its epoch and of the schedule, in batches of this run.

    An epoch has another number of batches, or of steps, if the batch size, `accumulate`, the number of processes or the
    data have changed.
    """
    batches, accumulate = trainer.batches, trainer.optim_wrapper.accumulate
    before = state.get("batches", batches), state.get("accumulate", accumulate)
    if before == (batches, accumulate):
        return state
    batch = min(batches, round(state["batch"] * batches / before[0] / accumulate) * accumulate)
    done = state["epoch"] * batches + batch
    updates = state["epoch"] * -(-batches // accumulate) + -(-batch // accumulate)
    return state | dict(batch=batch, iter=done, updates=updates, progress=state["progress"] | dict(done=done))


def _state(trainer: Runner) -> dict[str, Any]:
    """Return all that a resumed run needs, except its config and its data."""
    optim, progress, hooks = trainer.optim_wrapper, trainer.progress, trainer.hooks.state_dict()
    return dict(
        model=trainer.model.state_dict(),
        ema=None if trainer.ema is None else trainer.ema.average,
        optimizer=optim.optimizer.state_dict(),
        scaler=optim.scaler.state_dict(),
        skipped=optim.skipped,
        updates=optim.updates,
        iter=trainer.iter,
        batch=trainer.batch,
        batches=trainer.batches,
        accumulate=optim.accumulate,
        progress=progress.state(),
        seconds=trainer.seconds + time.perf_counter() - progress.epoch_start,
        history=trainer.history.epochs,
        bad={split: loader.bad for split, loader in trainer.loaders.items()},
        processes=processes.count(),
        threads=torch.get_num_threads(),
        settings=absolute(trainer.cfg.to_dict()),
    ) | (dict(hooks=hooks) if hooks else {})


def _metadata(trainer: Runner, metrics: dict[str, float]) -> dict[str, Any]:
    about = dict(classes=_classes(trainer), data=trainer.data, config=trainer.config_text)
    return dict(epoch=trainer.epoch, metrics=metrics, **about)


def _classes(trainer: Runner) -> list[str]:
    return list(trainer.loaders["train"].data.classes)


def _write(trainer: Runner, name: str, content: dict[str, Any], previous: str | None = None) -> None:
    trainer.call_hook("before_save_checkpoint", checkpoint=content)
    if not nonfinite.finite(content["model"].values()):
        raise BadNumbers(f"after step {trainer.iter} the weights are not finite: {name} is not overwritten")
    if processes.rank() == 0:
        trainer.ownership.check()
    wait_written(trainer)  # a kill while last/ is replaced must not leave an older last.pth, which would be resumed
    if trainer.saver is not None:
        folder = (trainer.folder / name).with_suffix("")
        trainer.saver.save_async(folder, content, None if previous is None else Path(previous).stem)
    elif processes.rank() == 0:
        checkpoint.save(trainer.folder / name, content, previous)


def _report_threads(before: int | None) -> None:
    now = torch.get_num_threads()
    if before is not None and before != now:
        print(
            f"the run used {before} threads and continues with {now}: sums are computed in another order, so results "
            f"may differ in their last bits (OMP_NUM_THREADS={before} sets the old number)"
        )


def _check_best(
    folder: Path, model: nn.Module, history: list[dict[str, float]], main: str, templates: Any = None
) -> None:
    """Raise unless best.pth is a checkpoint of this run, before more epochs are trained."""
    if not history:
        return
    path = folder / checkpoint.BEST
    remedy = "restore a copy of it, or start a new run"
    try:
        content = checkpoint.load(path, templates)
        checkpoint.check_weights(model, content, path)
    except DataError as error:
        raise DataError(f"{error}. It has the best weights of the run, which are tested at its end: {remedy}") from None
    last = folder / checkpoint.LAST
    for file, metrics in [(path, content.get("metrics", {})), *((last, epoch) for epoch in history)]:
        if main not in metrics:
            raise DataError(f"{file}: expected the metric {main}, which selects the best epoch: {remedy}")


def _restore_optimizer(wrapper: OptimWrapper, state: dict[str, Any], path: Path, scheduled: set[str]) -> None:
    """Load the counts and states of the optimizer and the fp16 gradient scaler, or raise if they do not fit.

    Settings that no schedule changes are those of the config, which may have changed.
    """
    wrapper.updates, wrapper.skipped, wrapper.batches = state["updates"], state["skipped"], state["iter"]
    groups = [dict(group) for group in wrapper.optimizer.param_groups]
    try:
        wrapper.optimizer.load_state_dict(regrouped(state["optimizer"], wrapper.optimizer))
        wrong = _mismatch(wrapper.optimizer, groups)
        for group, built in zip(wrapper.optimizer.param_groups, groups):
            group |= {key: value for key, value in built.items() if key not in {"params", *scheduled}}
        if state["scaler"]:  # empty if the run did not use fp16
            wrapper.scaler.load_state_dict(state["scaler"])
    except (KeyError, ValueError, TypeError, IndexError, AttributeError, RuntimeError) as error:
        wrong = " ".join(str(error).split()) or type(error).__name__
    if wrong:
        raise DataError(
            f"the optimizer state in {path} does not fit the config's optimizer ({wrong:.200}). Give the config of "
            "that run"
        )


def _mismatch(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> str:
    """Return the first key that a group or a parameter's state lacks or has in another shape; "" if none."""
    for group, expected in zip(optimizer.param_groups, groups):
        if missing := expected.keys() - group.keys():
            return f"its groups have no '{min(missing)}'"
    for parameter, state in optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, Tensor) and value.numel() != 1 and value.shape != parameter.shape:
                return f"{key} of shape {tuple(value.shape)} is for a parameter of shape {tuple(parameter.shape)}"
    return ""
