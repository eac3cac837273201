"""The training loop: epochs, steps, validation, checkpoints; with hooks of mmengine."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Mapping
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor

from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.config.data_root import absolute
from ndformer.framework.engine.training import nonfinite, run_state
from ndformer.framework.engine.training.console import Console
from ndformer.framework.engine.training.ema import EMA
from ndformer.framework.engine.training.evaluate import measure
from ndformer.framework.engine.training.first_batch import first_warnings
from ndformer.framework.engine.training.history import History, Visualizer
from ndformer.framework.engine.training.hooks import Hooks
from ndformer.framework.engine.training.loading import Loader, timed_batches
from ndformer.framework.engine.training.optim import build_optimizer, pretrained_parameters
from ndformer.framework.engine.training.optim_wrapper import OptimWrapper
from ndformer.framework.engine.training.owner import Ownership
from ndformer.framework.engine.training.parallel import Parallel, parallelize
from ndformer.framework.engine.training.preemption import RESUMABLE, Preemption
from ndformer.framework.engine.training.progress import CheckpointTimer, Progress
from ndformer.framework.engine.training.runner import Runner, seed_everything, seed_step
from ndformer.framework.engine.training.schedules import LearningRate
from ndformer.framework.engine.training.throughput import Profile, Throughput
from ndformer.framework.engine.training.watchdog import HANG_AFTER, Watchdog
from ndformer.framework.errors import BadNumbers
from ndformer.framework.model import TokenModel
from ndformer.framework.system import devices, processes

MAX_SKIPPED = 50  # fp16 steps skipped in a row; after so many, a lower loss scale will not help either


class Trainer(Runner):
    """Trains a model from a config, and saves all that is needed to resume bit for bit.

    Hooks receive it as `runner`, with the attributes that mmengine documents for them.
    """

    def __init__(
        self,
        cfg: Config,
        ownership: Ownership,
        loaders: Mapping[str, Loader],
        model: TokenModel,
        console: Console,
        resume: bool = False,
        allow_config_change: bool = False,
        allow_data_change: bool = False,
        profile: tuple[int, int] | None = None,
    ) -> None:
        settings = cfg.train_cfg
        self.cfg, self.model, self.loaders, self.console, self.ownership = cfg, model, loaders, console, ownership
        self.folder, self.config_text, self.resume = ownership.file.parent, cfg.pretty_text, resume
        self.allow_config_change, self.allow_data_change = allow_config_change, allow_data_change
        self.experiment_name = self.folder.name + time.strftime("_%Y%m%d_%H%M%S_") + str(time.time_ns() % 10**6)
        self.device, self.max_epochs, self.batches = devices.select(), settings.max_epochs, len(loaders["train"])
        self.stop_training = False  # a hook may set it too
        self.stop_requested = False  # a process received a signal to stop, and all processes know it
        seed_everything(cfg.seed)
        self.history = History(cfg.metrics, (cfg.get("early_stopping") or {}).get("patience"))
        self.data = {split: fingerprint(loader.data) for split, loader in loaders.items()}
        parallel = Parallel.from_config(settings)
        self.parallel = parallelize(model, parallel, model.amp, settings.get("compile", False))
        self.saver = run_state.sharded_saver(model)
        self.ema = EMA(model, **cfg.ema) if cfg.get("ema") else None
        accumulate = settings.get("accumulate", 1)
        self.optim_wrapper = OptimWrapper(
            build_optimizer(model, cfg.optimizer, cfg.get("param_groups")),
            self.device.type,
            epoch=self.batches,
            accumulate=accumulate,
            clip_grad=settings.get("clip_grad"),
            amp=model.amp,
        )
        updates = -(-self.batches // accumulate) * self.max_epochs
        self.learning_rate = LearningRate(cfg.schedule, cfg.optimizer.lr, self.optim_wrapper.optimizer, updates)
        self.hooks = Hooks(cfg.get("custom_hooks"))
        self.throughput, self.watchdog = Throughput(model), Watchdog(settings.get("hang_after", HANG_AFTER))
        self.hooks += [self.throughput, self.watchdog, *([Profile(*profile)] if profile else [])]
        device = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        self.preemption, self.timer = Preemption(), CheckpointTimer(settings.get("checkpoint_every"))
        self.progress = Progress(self.max_epochs, self.batches, console, device)
        self.visualizer = Visualizer(cfg.get("visualizer"), self.folder)

    def train(self) -> TokenModel:
        """Train all epochs, and return the model with its last weights."""
        self.call_hook("before_run")
        if self.resume:
            run_state.restore(self)
        if processes.rank() == 0:
            saved.write(self.folder, absolute(self.cfg.to_dict()))
        self.call_hook("before_train")
        self.stop_training |= self.history.should_stop()
        self.progress.begin()
        while self.epoch < self.max_epochs and not self.stop_training:
            self.train_epoch()
            self.end_epoch()
            self.stop_if_requested()
        if 0 < self.optim_wrapper.updates == self.optim_wrapper.skipped:
            raise BadNumbers(
                f"all {self.optim_wrapper.skipped} steps were skipped, since their gradients are not finite in fp16: "
                "nothing was learned. Try amp='bf16', a lower lr or clip_grad"
            )
        run_state.wait_written(self)
        self.call_hook("after_train")
        self.call_hook("after_run")
        return self.model

    def train_epoch(self) -> None:
        self.call_hook("before_train_epoch")
        self.model.train()
        freezes = self.epoch < self.cfg.train_cfg.get("freeze_epochs", 0)
        self.optim_wrapper.frozen = pretrained_parameters(self.model) if freezes else ()
        for batch, waited in timed_batches(self.loaders["train"], self.epoch, skip=self.batch):
            lr = self.learning_rate.set(self.optim_wrapper.updates)
            self.call_hook("before_train_iter", batch_idx=self.batch, data_batch=batch)
            outputs = self.train_step(batch)
            self.call_hook("after_train_iter", batch_idx=self.batch, data_batch=batch, outputs=outputs)
            self.iter += 1
            self.batch += 1
            self.progress.step(len(batch["data_samples"]), waited, outputs["loss"], lr)
            if self.optim_wrapper.should_update():
                self.end_step()
        if not math.isfinite(self.progress.mean_loss):  # fp16 continues after a step that is not finite
            raise BadNumbers(
                f"epoch {self.epoch + 1}: the mean loss is not finite. Try amp='bf16', a lower lr, a longer warmup or "
                "clip_grad"
            )
        self.call_hook("after_train_epoch")

    def train_step(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """Run forward, backward and, when enough batches are accumulated, an optimizer step.

        Returns the mean loss over all processes, as a CPU tensor.
        """
        optim = self.optim_wrapper
        with self.explained(batch), first_warnings(self):
            seed_step(self.cfg.seed, self.iter)
            loss = self.loss(batch, self.parallel)
            flags = bool(self.preemption.signal_name), self.timer.passed()  # of this process
            stop, due = (loss.new_full((), float(flag), dtype=torch.float32) for flag in flags)
            means = processes.mean(torch.stack([stop, due, loss.detach().float()]))  # NaN in one process is NaN in all
            optim.backward(loss)
            mean = self._sync_stats(means)
            if optim.should_update():
                run_state.wait_staged(self)
                optim.step()
                optim.zero_grad()
                if self.ema is not None and not optim.skipped:
                    self.ema.update(self.model)
            if optim.skipped >= MAX_SKIPPED:
                raise FloatingPointError(
                    f"{MAX_SKIPPED} steps in a row were skipped, since their gradients are not finite"
                )
        return dict(loss=mean)

    def end_step(self) -> None:
        """Save a checkpoint after an optimizer step if one is due, and stop if a signal requested it."""
        if self.stop_requested or self.timer.due(self.optim_wrapper.updates):
            run_state.save(self)
        self.stop_if_requested()

    def stop_if_requested(self) -> None:
        """Raise SystemExit(RESUMABLE) if a process received a signal to stop; the checkpoint is already written."""
        if self.stop_requested:
            run_state.wait_written(self)
            processes.wait()  # for the process that writes the checkpoint
            name = self.preemption.signal_name or "a signal to another process"
            self.console.print(f"stopped by {name} in epoch {self.epoch + 1}: go on with --resume")
            raise SystemExit(RESUMABLE)

    def end_epoch(self) -> None:
        """Validate, log and save the epoch, and decide whether to stop early."""
        self.epoch += 1
        try:
            metrics = self.validate()
        except _StopInValidation:
            self.epoch -= 1  # a resumed run validates first
            self.stop_requested = True
            return run_state.save(self)
        self.history.epochs.append(
            dict(epoch=self.epoch, loss=self.progress.mean_loss, lr=self.learning_rate.current, **metrics)
        )
        self.seconds += time.perf_counter() - self.progress.epoch_start
        self.batch = 0
        self.progress.new_epoch()
        run_state.save(self)
        self.visualizer.add_scalars(self.history.epochs[-1] | self.throughput.rates, step=self.epoch)
        if self.history.should_stop():
            main, patience = self.history.main, self.history.patience
            self.console.print(f"no better validation {main} for {patience} epochs: stopping early")
            self.stop_training = True
        if processes.rank() == 0:
            last = self.stop_training or self.stop_requested or self.epoch == self.max_epochs
            self.history.draw(self.folder / "curves.png", last)
        return None

    def validate(self) -> dict[str, float]:
        """Measure the averaged weights if there are any, else the current ones; save them if they are the best."""
        run_state.share_statistics(self)
        with contextlib.nullcontext() if self.ema is None else self.ema.applied(self.model):
            batches = self.progress.with_progress(self.loaders["val"], "validation")
            evaluation = measure(self.cfg.metrics, self.model, batches, self._call_validation_hook)
            if self.history.is_best(evaluation.values):
                run_state.save_best(self, evaluation.values)
                run_state.wait_staged(self)
        self.progress.end_epoch(self.learning_rate.current, f"{self.throughput.line}  {evaluation.line}")
        return evaluation.values

    def _call_validation_hook(self, point: str, **arguments: Any) -> None:
        """Call hooks; in a run of one process, also stop if a signal requested it (several would have to agree)."""
        self.call_hook(point, **arguments)
        if point == "after_val_iter" and self.preemption.signal_name and not processes.is_distributed():
            raise _StopInValidation

    def _sync_stats(self, means: Tensor) -> Tensor:
        """Read stop flag, timer flag, loss and largest gradient in the step's only device synchronization.

        Returns the loss as a CPU tensor. In fp16 the gradient scaler checks the gradients instead. Gradients that are
        not shared yet, because more batches follow, are not checked: the processes would disagree.
        """
        optim = self.optim_wrapper
        scaled, is_own = optim.scaler.is_enabled(), processes.is_distributed() and not optim.should_update()
        gradient = means[2] if scaled or is_own else nonfinite.largest(optim.gradients())
        stats = torch.cat([means, gradient.to(means)[None]]).cpu()
        stop, due, *sizes = stats.tolist()
        self.stop_requested, self.timer.is_over = bool(stop), bool(due)
        for name, size in zip(("loss", "gradient"), sizes):
            if not scaled and not math.isfinite(size):
                raise FloatingPointError(f"the {name} is not finite")
        return stats[2]


class _StopInValidation(Exception):
    """A signal requested a stop during validation."""
