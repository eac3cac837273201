"""Training on mmengine's Runner: its loops, hooks and visualizer; our schedule, average, checkpoints and progress."""

from __future__ import annotations

import contextlib
import importlib.util
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from mmengine.config import Config
from torch import nn
from torch.utils.data import DataLoader

from ndformer.framework.data import DataError
from ndformer.framework.engine import checkpoint, report
from ndformer.framework.engine.compat import (
    AmpWrapper,
    EpochBasedTrainLoop,
    Evaluator,
    QuietRunner,
    ValLoop,
    Visualizer,
)
from ndformer.framework.engine.ema import EMA
from ndformer.framework.engine.optim import build_optimizer
from ndformer.framework.engine.progress import Progress
from ndformer.framework.engine.schedules import SCHEDULES, Schedule
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import METRICS

AMP = {None: None, "bf16": torch.bfloat16, "fp16": torch.float16}


class TrainLoop(EpochBasedTrainLoop):
    """mmengine's loop, with a schedule per optimizer step, averaged weights, and the end of an epoch as one event."""

    waited = 0.0  # seconds for the loader, before this iteration

    @property
    def trainer(self) -> Trainer:
        return cast(Trainer, self.runner)

    def run(self) -> nn.Module:
        trainer = self.trainer
        trainer.call_hook("before_train")
        trainer.progress = Progress(self.max_epochs, len(self.dataloader), self.iter)
        while self._epoch < self._max_epochs and not self.stop_training:
            for sampler in (self.dataloader.batch_sampler, self.dataloader.sampler):
                if hasattr(sampler, "set_epoch"):
                    cast(Any, sampler).set_epoch(self._epoch)
            trainer.progress.new_epoch()
            self.run_epoch()
            self.stop_training = trainer.end_epoch()
        trainer.call_hook("after_train")
        return trainer.model

    def run_epoch(self) -> None:
        self.runner.call_hook("before_train_epoch")
        self.runner.model.train()
        mark = time.perf_counter()
        for index, batch in enumerate(self.dataloader):
            self.waited = time.perf_counter() - mark
            self.run_iter(index, batch)
            mark = time.perf_counter()
        self.runner.call_hook("after_train_epoch")
        self._epoch += 1

    def run_iter(self, idx: int, data_batch: dict[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        trainer, wrapper = self.trainer, self.trainer.wrapper
        lr = trainer.set_lr(wrapper.updates)
        before = wrapper.updates
        self.runner.call_hook("before_train_iter", batch_idx=idx, data_batch=data_batch)
        outputs = cast(TokenModel, trainer.model).train_step(data_batch, optim_wrapper=wrapper)
        if trainer.ema is not None and wrapper.updates > before:
            trainer.ema.update(trainer.model)
        self.runner.call_hook("after_train_iter", batch_idx=idx, data_batch=data_batch, outputs=outputs)
        self._iter += 1
        trainer.progress.step(len(data_batch["data_samples"]), self.waited, outputs["loss"].item(), lr)


class Trainer(QuietRunner):
    """A Runner that knows its config, and what a run must remember to go on as if it had never stopped."""

    progress: Progress

    def __init__(self, cfg: Config, work_dir: Path, loaders: dict[str, DataLoader[Any]], model: TokenModel) -> None:
        settings = cfg.train_cfg
        self.config, self.device_name = cfg, "cuda" if torch.cuda.is_available() else "cpu"
        self.metrics = [METRICS.create(m) for m in cfg.metrics]
        self.main = self.metrics[0].main
        self.schedule: Schedule = SCHEDULES.create(cfg.schedule)
        self.wrapper = AmpWrapper(
            model.amp,
            self.device_name,
            optimizer=build_optimizer(model, cfg.optimizer, cfg.get("param_groups")),
            accumulative_counts=settings.get("accumulate", 1),
            clip_grad=None if settings.get("clip_grad") is None else dict(max_norm=settings.clip_grad),
        )
        self.ema = EMA(model, **cfg.ema) if cfg.get("ema") else None
        self.history: list[dict[str, float]] = []
        self.best, self.seconds = -float("inf"), 0.0
        super().__init__(
            model=model,
            work_dir=str(work_dir),
            train_dataloader=loaders["train"],
            train_cfg=dict(type=TrainLoop, max_epochs=settings.max_epochs),
            val_dataloader=loaders["val"],
            val_cfg=dict(type=ValLoop),
            val_evaluator=Evaluator(self.metrics),
            optim_wrapper=self.wrapper,
            visualizer=_visualizer(cfg, work_dir),
            randomness=dict(seed=cfg.seed),
            experiment_name=work_dir.name + time.strftime("_%Y%m%d_%H%M%S_") + str(time.time_ns() % 10**6),
        )
        if settings.get("compile"):
            model.backbone.compile()
        if self.ema is not None:
            self.ema.average = {name: value.to(self.device_name) for name, value in self.ema.average.items()}
        self.path = work_dir
        loader = loaders["train"]
        self.total_updates = -(-len(loader) * settings.max_epochs // settings.get("accumulate", 1))

    def set_lr(self, update: int) -> float:
        factor = self.schedule(update, self.total_updates)
        for group in self.wrapper.optimizer.param_groups:
            group["lr"] = self.config.optimizer.lr * group["lr_scale"] * factor
        return self.config.optimizer.lr * factor

    @contextlib.contextmanager
    def averaged(self) -> Iterator[None]:
        with contextlib.nullcontext() if self.ema is None else self.ema.applied(self.model):
            yield

    def end_epoch(self) -> bool:
        """Validate, report, keep; True = stop early."""
        with self.averaged():
            metrics = cast(ValLoop, self.val_loop).run()
            improved = metrics[self.main] > self.best
            if improved:
                self.best = metrics[self.main]
                checkpoint.save(self.path / "best.pth", dict(model=self.model.state_dict(), **self._about(metrics)))
        lr = self.wrapper.optimizer.param_groups[0]["lr"]
        self.progress.end_epoch(lr, metrics)
        self.history.append(dict(epoch=self.epoch, loss=self.progress.mean_loss, lr=lr, **metrics))
        self.seconds += time.perf_counter() - self.progress.epoch_start
        self.visualizer.add_scalars(dict(self.history[-1]), step=self.epoch)
        checkpoint.save(self.path / "last.pth", self._state() | self._about(metrics))
        report.curves(self.path / "curves.png", self.history, self.main)
        patience = (self.config.get("early_stopping") or {}).get("patience")
        scores = [h[self.main] for h in self.history]
        stop = patience is not None and len(scores) - 1 - int(np.argmax(scores)) >= patience
        if stop:
            print(f"no better validation {self.main} for {patience} epochs: stopping early")
        return stop

    def _about(self, metrics: dict[str, float]) -> dict[str, Any]:
        classes = list(cast(Any, self.train_dataloader.dataset).classes)
        return dict(epoch=self.epoch, metrics=metrics, classes=classes, config=self.config.pretty_text)

    def _state(self) -> dict[str, Any]:
        wrapper = self.wrapper
        return dict(
            model=self.model.state_dict(),
            ema=None if self.ema is None else self.ema.average,
            optimizer=wrapper.optimizer.state_dict(),
            scaler=wrapper.scaler.state_dict(),
            updates=wrapper.updates,
            iter=self.iter,
            best=self.best,
            seconds=self.seconds,
            history=self.history,
            rng=torch.get_rng_state(),
            cuda_rng=torch.cuda.get_rng_state_all() if self.device_name == "cuda" else [],
        )

    def load_or_resume(self) -> None:
        """Called by the Runner when everything is built."""
        if not self._resume:
            return
        path = self.path / "last.pth"
        if not path.is_file():
            raise DataError(f"nothing to resume in {self.path}: it has no last.pth. Start without --resume")
        state = checkpoint.load(path)
        checkpoint.load_weights(self.model, state, path)
        if self.ema is not None:
            self.ema.average = {name: value.to(self.device_name) for name, value in state["ema"].items()}
        wrapper = self.wrapper
        wrapper.optimizer.load_state_dict(state["optimizer"])
        wrapper.scaler.load_state_dict(state["scaler"])
        wrapper.updates = state["updates"]
        loop = cast(TrainLoop, self.train_loop)
        loop._epoch, loop._iter = state["epoch"], state["iter"]
        self.best, self.seconds, self.history = state["best"], state["seconds"], state["history"]
        torch.set_rng_state(state["rng"])
        if self.device_name == "cuda":
            torch.cuda.set_rng_state_all(state["cuda_rng"])
        print(f"resumed after epoch {self.epoch} of {self.max_epochs}")


def _visualizer(cfg: Config, work_dir: Path) -> Visualizer:
    kinds = dict(tensorboard="TensorboardVisBackend", wandb="WandbVisBackend")
    chosen = cfg.get("visualizer")
    if chosen and importlib.util.find_spec(chosen) is None:
        raise DataError(f"visualizer='{chosen}' needs a package that is not installed: pip install {chosen}")
    backends: Any = [dict(type="LocalVisBackend")] + ([dict(type=kinds[chosen])] if chosen else [])
    return Visualizer(name=f"{work_dir.name}_{time.time_ns()}", vis_backends=backends, save_dir=str(work_dir))
