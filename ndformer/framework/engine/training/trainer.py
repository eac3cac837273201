"""The training loop, on mmengine's Runner: schedule, EMA, validation, early stopping, checkpoints."""

from __future__ import annotations

import contextlib
import importlib.util
import math
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from mmengine.config import Config
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.data_root import absolute
from ndformer.framework.engine.config.differences import check_resumable
from ndformer.framework.engine.training import checkpoint, nonfinite, resuming, same_data
from ndformer.framework.engine.training.console import Console
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.engine.training.first_batch import collect_warnings
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.engine.training.mmengine_fixes import EpochBasedTrainLoop, Visualizer
from ndformer.framework.engine.training.optim import build_optimizer, pretrained_parameters
from ndformer.framework.engine.training.owner import Ownership
from ndformer.framework.engine.training.preemption import RESUMABLE, Preemption
from ndformer.framework.engine.training.progress import CheckpointTimer, Progress
from ndformer.framework.engine.training.runner import AmpWrapper, QuietRunner
from ndformer.framework.engine.training.schedules import Schedule
from ndformer.framework.engine.training.train_step import TrainStep
from ndformer.framework.errors import BadNumbers, DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import SCHEDULES
from ndformer.framework.system import devices, processes

CURVES_EVERY = 30.0  # seconds between two pictures of the curves, which may take longer than an epoch of a tiny model


class TrainLoop(EpochBasedTrainLoop):
    """mmengine's epoch loop, with a learning rate per optimizer step, EMA, and resuming within an epoch."""

    waited = 0.0  # seconds that this iteration waited for the loader
    batch = 0  # finished batches of this epoch

    @property
    def trainer(self) -> Trainer:
        return cast(Trainer, self.runner)

    def run(self) -> nn.Module:
        trainer = self.trainer
        trainer.call_hook("before_train")
        self.stop_training = trainer.should_stop_early()
        trainer.progress.begin()
        while self._epoch < self._max_epochs and not self.stop_training:
            for sampler in (self.dataloader.batch_sampler, self.dataloader.sampler):
                if hasattr(sampler, "set_epoch"):
                    cast(Any, sampler).set_epoch(self._epoch)
            cast(Any, self.dataloader.batch_sampler).skip = self.batch
            self.run_epoch()
            self.stop_training = trainer.end_epoch()
            trainer.stop_if_requested()
        if 0 < trainer.wrapper.updates == trainer.wrapper.skipped:
            raise BadNumbers(
                f"all {trainer.wrapper.skipped} steps were skipped, since their gradients are not finite in fp16: "
                "nothing was learned. Try amp='bf16', a lower lr or clip_grad"
            )
        trainer.call_hook("after_train")
        return trainer.model

    def run_epoch(self) -> None:
        self.runner.call_hook("before_train_epoch")
        self.runner.model.train()
        trainer, settings = self.trainer, self.trainer.config.train_cfg
        freezes = self._epoch < settings.get("freeze_epochs", 0)
        trainer.wrapper.frozen = pretrained_parameters(trainer.model) if freezes else ()
        mark = time.perf_counter()
        for batch in self.dataloader:
            self.waited = time.perf_counter() - mark
            self.run_iter(self.batch, batch)
            mark = time.perf_counter()
        if not math.isfinite(self.trainer.progress.mean_loss):  # fp16 continues after a step that is not finite
            raise BadNumbers(
                f"epoch {self._epoch + 1}: the mean loss is not finite. Try amp='bf16', a lower lr, a longer warmup or "
                "clip_grad"
            )
        self.runner.call_hook("after_train_epoch")

    def run_iter(self, idx: int, data_batch: dict[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        trainer, wrapper = self.trainer, self.trainer.wrapper
        lr = trainer.set_lr(wrapper.updates)
        before = wrapper.updates
        self.runner.call_hook("before_train_iter", batch_idx=idx, data_batch=data_batch)
        if self._iter == 0 and not trainer.config.train_cfg.get("compile"):  # a graph would be traced twice
            with collect_warnings(trainer.model) as warnings:
                outputs = trainer.step(data_batch)
            for warning in warnings:
                trainer.console.print(warning)
        else:
            outputs = trainer.step(data_batch)
        if trainer.ema is not None and wrapper.updates > before and not wrapper.skipped:
            trainer.ema.update(trainer.model)
        self.runner.call_hook("after_train_iter", batch_idx=idx, data_batch=data_batch, outputs=outputs)
        self._iter += 1
        self.batch += 1
        trainer.progress.step(len(data_batch["data_samples"]), self.waited, outputs["loss"], lr)
        if wrapper.updates > before:
            trainer.end_step()


class Trainer(QuietRunner):
    """A Runner that trains from a config, and saves all that is needed to resume bit for bit."""

    def __init__(
        self,
        cfg: Config,
        ownership: Ownership,
        loaders: Mapping[str, DataLoader[Any]],
        model: TokenModel,
        console: Console,
        resume: bool = False,
        allow_config_change: bool = False,
        allow_data_change: bool = False,
    ) -> None:
        settings, work_dir = cfg.train_cfg, ownership.file.parent
        self.config, self.device = cfg, devices.select()
        self.loaders, self.path, self.text = loaders, work_dir, cfg.pretty_text
        self.console = console
        self.ownership = ownership
        self.main, self.quantity = main_metric(cfg.metrics)
        self.schedule: Schedule = SCHEDULES.create(cfg.schedule)
        accumulate = settings.get("accumulate", 1)
        self.wrapper = AmpWrapper(
            model.amp,
            self.device.type,
            optimizer=build_optimizer(model, cfg.optimizer, cfg.get("param_groups")),
            accumulative_counts=accumulate,
            clip_grad=None if settings.get("clip_grad") is None else dict(max_norm=settings.clip_grad),
        )
        if self.schedule.beta1(0, 2) is not None and "betas" not in self.wrapper.optimizer.defaults:
            raise ValueError(
                f"schedule.betas: expected an optimizer with betas, got {cfg.optimizer.type}. Leave them out"
            )
        self.wrapper.epoch = len(loaders["train"])
        self.total_updates = -(-len(loaders["train"]) // accumulate) * settings.max_epochs
        samples = np.linspace(0, self.total_updates - 1, min(100, self.total_updates)).astype(int)
        if not any(self.schedule(int(update), self.total_updates) for update in samples):
            raise ValueError(
                f"schedule: the learning rate is 0 in all {self.total_updates} steps, so nothing would be learned"
            )
        self.ema = EMA(model, **cfg.ema) if cfg.get("ema") else None
        self.history: list[dict[str, float]] = []
        self.seconds, self.curves_time = 0.0, -float("inf")  # when curves.png was drawn
        self.preemption = Preemption()
        self.timer = CheckpointTimer(settings.get("checkpoint_every"))
        self.allow_config_change, self.allow_data_change = allow_config_change, allow_data_change
        self.data = {split: fingerprint(cast(Any, loader.dataset)) for split, loader in loaders.items()}
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        self.progress = Progress(settings.max_epochs, len(loaders["train"]), console, device)
        super().__init__(
            model=model,
            work_dir=str(work_dir),
            train_dataloader=loaders["train"],
            train_cfg=dict(type=TrainLoop, max_epochs=settings.max_epochs),
            optim_wrapper=self.wrapper,
            visualizer=_visualizer(cfg, work_dir),
            resume=resume,
            randomness=dict(seed=cfg.seed),
            experiment_name=work_dir.name + time.strftime("_%Y%m%d_%H%M%S_") + str(time.time_ns() % 10**6),
        )
        if settings.get("compile"):
            model.backbone.compile()
        parallel: nn.Module = self.model
        if processes.is_distributed():
            several = len(model.modalities) > 1  # a batch may lack some of them
            parallel = DistributedDataParallel(model, find_unused_parameters=several)
        self.train_step = TrainStep(model, parallel, self.wrapper, self.preemption, cfg.seed, work_dir)
        if self.ema is not None:
            self.ema.average = {name: value.to(self.device) for name, value in self.ema.average.items()}

    def step(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Run one training step on a batch."""
        return dict(loss=self.train_step(batch, self.iter, self.epoch))

    def set_lr(self, update: int) -> float:
        factor, beta1 = (f(update, self.total_updates) for f in (self.schedule, self.schedule.beta1))
        for group in self.wrapper.optimizer.param_groups:
            group["lr"] = self.config.optimizer.lr * group["lr_scale"] * factor
            if beta1 is not None:
                group["betas"] = (beta1, *group["betas"][1:])
        return self.config.optimizer.lr * factor

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        with contextlib.nullcontext() if self.ema is None else self.ema.applied(self.model):
            yield

    def end_step(self) -> None:
        """Save a checkpoint after an optimizer step if one is due, and stop if a signal requested it."""
        if self.train_step.stop_requested or self.timer.due(self.wrapper.updates):
            self._save()
        self.stop_if_requested()

    def stop_if_requested(self) -> None:
        """Raise SystemExit(RESUMABLE) if a process received a signal to stop; the checkpoint is already written."""
        if self.train_step.stop_requested:
            processes.wait()  # for the process that writes the checkpoint
            name = self.preemption.signal_name or "a signal to another process"
            self.console.print(f"stopped by {name} in epoch {self.epoch + 1}: go on with --resume")
            raise SystemExit(RESUMABLE)

    def end_epoch(self) -> bool:
        """Validate, log and save the epoch; return whether to stop early."""
        try:
            with self.averaged():
                batches = self.progress.with_progress(self.loaders["val"], "validation")
                evaluation = measure(self.config.metrics, cast(TokenModel, self.model), batches, self._check_signal)
                metrics = evaluation.values
                loop = cast(TrainLoop, self.train_loop)
                loop._epoch += 1
                if self.quantity.best([*self.validated, metrics[self.main]]) == len(self.history):
                    self._write(checkpoint.BEST, dict(model=self.model.state_dict(), **self._metadata(metrics)))
        except _StopInValidation:
            self.train_step.stop_requested = True
            self._save()
            return True
        lr = self.wrapper.optimizer.param_groups[0]["lr"]
        self.progress.end_epoch(lr, evaluation.line)
        self.history.append(dict(epoch=self.epoch, loss=self.progress.mean_loss, lr=lr, **metrics))
        self.seconds += time.perf_counter() - self.progress.epoch_start
        loop.batch = 0
        self.progress.new_epoch()
        self._save()
        self.visualizer.add_scalars(dict(self.history[-1]), step=self.epoch)
        stop = self.should_stop_early()
        last = stop or self.train_step.stop_requested or self.epoch == self.max_epochs
        if processes.rank() == 0 and (last or time.monotonic() - self.curves_time > CURVES_EVERY):
            with report.attempted(picture := self.path / "curves.png"):
                report.curves(picture, self.history, self.main, self.quantity)
            self.curves_time = time.monotonic()
        if stop:
            patience = self.config.early_stopping.patience
            self.console.print(f"no better validation {self.main} for {patience} epochs: stopping early")
        return stop

    def _check_signal(self) -> None:
        """Stop between validation batches, in runs of one process: several processes would have to agree first."""
        if self.preemption.signal_name and not processes.is_distributed():
            raise _StopInValidation

    def should_stop_early(self) -> bool:
        patience = (self.config.get("early_stopping") or {}).get("patience")
        if patience is None or not self.history:
            return False
        return len(self.history) - 1 - self.quantity.best(self.validated) >= patience

    @property
    def validated(self) -> list[float]:
        """The main metric of each epoch."""
        return [epoch[self.main] for epoch in self.history]

    def _write(self, name: str, content: dict[str, Any], previous: str | None = None) -> None:
        if not nonfinite.finite(content["model"].values()):
            raise BadNumbers(f"after step {self.iter} the weights are not finite: {name} is not overwritten")
        if processes.rank() == 0:
            self.ownership.check()
            checkpoint.save(self.path / name, content, previous)

    def _save(self) -> None:
        metrics = {name: v for name, v in (self.history or [{}])[-1].items() if name not in ("epoch", "loss", "lr")}
        self._write(checkpoint.LAST, self._state() | self._metadata(metrics), checkpoint.PREVIOUS)
        self.timer.restart()

    def _metadata(self, metrics: dict[str, float]) -> dict[str, Any]:
        return dict(epoch=self.epoch, metrics=metrics, classes=self._classes(), data=self.data, config=self.text)

    def _classes(self) -> list[str]:
        return list(cast(Any, self.train_dataloader.dataset).classes)

    def _state(self) -> dict[str, Any]:
        """Return all that a resumed run needs, except its config and its data."""
        wrapper, loop, progress = self.wrapper, cast(TrainLoop, self.train_loop), self.progress
        return dict(
            model=self.model.state_dict(),
            ema=None if self.ema is None else self.ema.average,
            optimizer=wrapper.optimizer.state_dict(),
            scaler=wrapper.scaler.state_dict(),
            skipped=wrapper.skipped,
            updates=wrapper.updates,
            iter=loop.iter,
            batch=loop.batch,
            progress=progress.state(),
            seconds=self.seconds + time.perf_counter() - progress.epoch_start,
            history=self.history,
            bad={split: getattr(loader, "bad", {}) for split, loader in self.loaders.items()},
            processes=processes.count(),
            threads=torch.get_num_threads(),
            settings=absolute(self.config.to_dict()),
        )

    def load_or_resume(self) -> None:
        """Resume if the run is to; the Runner calls this once everything is built."""
        if self._resume:
            self._restore()
        if processes.rank() == 0:
            saved.write(self.path, absolute(self.config.to_dict()))

    def _restore(self) -> None:
        path, state = checkpoint.load_newest(self.path)
        check_resumable(self.config, state, self.allow_config_change)
        same_data.check(state, self.data, self._classes(), self.allow_data_change)
        resuming.check_best(self.path, self.model, state["history"], self.main)
        resuming.report_threads(state.get("threads"))
        checkpoint.load_weights(self.model, state, path)
        if self.ema is not None:
            average = checkpoint.check_weights(self.model, dict(model=state["ema"] or state["model"]), path)
            self.ema.average = {name: value.to(self.device) for name, value in average.items()}
        wrapper, loop = self.wrapper, cast(TrainLoop, self.train_loop)
        resuming.restore(wrapper, state, path)
        wrapper.updates, wrapper.skipped = state["updates"], state["skipped"]
        loop._epoch, loop._iter, loop.batch = state["epoch"], state["iter"], state["batch"]
        self.seconds, self.history = state["seconds"], state["history"]
        self.progress.restore(state["progress"])
        for split, loader in self.loaders.items():
            if isinstance(loader, Loader):
                loader.bad |= state["bad"].get(split, {})
        within = f", {loop.batch} batches into the next" if loop.batch else ""
        print(f"resumed after epoch {self.epoch} of {self.max_epochs}{within} from {path.name}")


class _StopInValidation(Exception):
    """A signal requested a stop during validation."""


def _visualizer(cfg: Config, work_dir: Path) -> Visualizer:
    kinds = dict(tensorboard="TensorboardVisBackend", wandb="WandbVisBackend")
    chosen = cfg.get("visualizer")
    if chosen and importlib.util.find_spec(chosen) is None:
        raise DataError(
            f"visualizer='{chosen}' needs the package {chosen}, which is not installed: pip install {chosen}"
        )
    backends: Any = [dict(type="LocalVisBackend")] + ([dict(type=kinds[chosen])] if chosen else [])
    return Visualizer(name=f"{work_dir.name}_{time.time_ns()}", vis_backends=backends, save_dir=str(work_dir))
