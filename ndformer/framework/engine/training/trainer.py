"""Training on mmengine's Runner: its loops, hooks and visualizer; our schedule, EMA, early stopping, checkpoints."""

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
from ndformer.framework.engine.training.first_batch import looked_at
from ndformer.framework.engine.training.loading import Loader
from ndformer.framework.engine.training.mmengine_fixes import EpochBasedTrainLoop, Visualizer
from ndformer.framework.engine.training.nonfinite import sample_names
from ndformer.framework.engine.training.optim import build_optimizer, pretrained_parameters
from ndformer.framework.engine.training.owner import Ownership
from ndformer.framework.engine.training.preemption import RESUMABLE, Preemption
from ndformer.framework.engine.training.progress import CheckpointTimer, Progress
from ndformer.framework.engine.training.runner import AmpWrapper, QuietRunner
from ndformer.framework.engine.training.schedules import Schedule
from ndformer.framework.errors import BadNumbers, DataError
from ndformer.framework.evaluation.metric import main_metric
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures import runs as report
from ndformer.framework.registry import SCHEDULES
from ndformer.framework.system import devices, processes

SKIPS = 50  # fp16 steps in a row that are too large, after which more will not help
REDRAWN = 30  # seconds between two pictures of the curves: one takes longer than an epoch of a tiny model may


class TrainLoop(EpochBasedTrainLoop):
    """mmengine's loop, with a schedule per optimizer step, averaged weights, and the end of an epoch as one event."""

    waited = 0.0  # seconds for the loader, before this iteration
    batch = 0  # batches of this epoch that are done

    @property
    def trainer(self) -> Trainer:
        return cast(Trainer, self.runner)

    def run(self) -> nn.Module:
        trainer = self.trainer
        trainer.call_hook("before_train")
        self.stop_training = trainer.out_of_patience()
        trainer.progress.begin()
        while self._epoch < self._max_epochs and not self.stop_training:
            for sampler in (self.dataloader.batch_sampler, self.dataloader.sampler):
                if hasattr(sampler, "set_epoch"):
                    cast(Any, sampler).set_epoch(self._epoch)
            cast(Any, self.dataloader.batch_sampler).skip = self.batch
            self.run_epoch()
            self.stop_training = trainer.end_epoch()
            trainer.stop_if_told()
        if 0 < trainer.wrapper.updates == trainer.wrapper.skipped:
            raise BadNumbers(
                f"all {trainer.wrapper.skipped} steps were left out, since their gradients are not finite in fp16, so "
                "nothing was learnt; amp='bf16', a lower lr or clip_grad may help"
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
        if not math.isfinite(self.trainer.progress.mean_loss):  # fp16, which goes on after single steps
            raise BadNumbers(
                f"epoch {self._epoch + 1}: its mean loss is not finite; amp='bf16', a lower lr, a longer warmup or "
                "clip_grad may help"
            )
        self.runner.call_hook("after_train_epoch")

    def run_iter(self, idx: int, data_batch: dict[str, Any]) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        trainer, wrapper = self.trainer, self.trainer.wrapper
        lr = trainer.set_lr(wrapper.updates)
        before = wrapper.updates
        self.runner.call_hook("before_train_iter", batch_idx=idx, data_batch=data_batch)
        if self._iter == 0 and not trainer.config.train_cfg.get("compile"):  # a graph would be traced twice
            with looked_at(trainer.model) as far:
                outputs = trainer.step(data_batch)
            for sentence in far:
                trainer.console.say(sentence)
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
    """A Runner that knows its config, and what a run must remember to go on as if it had never stopped."""

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
            raise ValueError(f"schedule.betas are for optimizers with betas, and {cfg.optimizer.type} has none")
        self.wrapper.epoch = len(loaders["train"])
        self.total_updates = -(-len(loaders["train"]) // accumulate) * settings.max_epochs
        some = np.linspace(0, self.total_updates - 1, min(100, self.total_updates)).astype(int)
        if not any(self.schedule(int(update), self.total_updates) for update in some):
            raise ValueError(
                f"the schedule makes the learning rate 0 in all of {self.total_updates} steps: nothing would be learnt"
            )
        self.ema = EMA(model, **cfg.ema) if cfg.get("ema") else None
        self.history: list[dict[str, float]] = []
        self.seconds, self.drawn = 0.0, -float("inf")
        self.preemption, self.told = Preemption(), False  # told: all processes know of it
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
        self.parallel: nn.Module = self.model
        if processes.is_distributed():
            several = len(model.modalities) > 1  # some of which a batch may lack
            self.parallel = DistributedDataParallel(model, find_unused_parameters=several)
        if self.ema is not None:
            self.ema.average = {name: value.to(self.device) for name, value in self.ema.average.items()}

    def step(self, batch: dict[str, Any]) -> dict[str, Tensor]:
        """A batch forward and backward, and the optimizer's step where it is due."""
        wrapper = self.wrapper
        self._reseed()
        try:
            loss = self._loss(batch, self.parallel)
            told = loss.new_full((), float(bool(self.preemption.wanted)), dtype=torch.float32)
            mean, told = processes.mean(torch.stack([loss.detach().float(), told]))  # NaN in one is NaN in all
            wrapper.backward(wrapper.scale_loss(loss))
            mean = self._look(mean, told)
            if wrapper.should_update():
                wrapper.step()
                wrapper.zero_grad()
            if wrapper.skipped >= SKIPS:
                raise FloatingPointError(f"{SKIPS} steps in a row were skipped, since their gradients are not finite")
        except FloatingPointError as error:
            raise self._bad_numbers(str(error), batch) from None
        except RuntimeError as error:
            if not torch.is_anomaly_enabled() or "returned nan values" not in str(error):
                raise
            raise self._bad_numbers(str(error).splitlines()[0], batch) from None
        return dict(loss=mean)

    def _look(self, loss: Tensor, told: Tensor) -> Tensor:
        """Read loss, largest gradient and stop flag in the step's only device synchronization.

        Returns the loss as a CPU tensor. It runs before the weights change.
        In fp16 the gradient scaler checks the gradients instead.
        """
        scaled = self.wrapper.scaler.is_enabled()
        gradient = loss if scaled else nonfinite.largest(self.wrapper.gradients())
        found = torch.stack([told, loss, gradient.to(loss)]).cpu()
        wanted, *sizes = found.tolist()
        self.told = bool(wanted)
        for what, size in zip(("loss", "gradient"), sizes):
            if not scaled and not math.isfinite(size):
                raise FloatingPointError(f"the {what} is not finite")
        return found[1]

    def _reseed(self) -> None:
        """What is random in a step - mixing, drop path - is a function of the seed and its number alone."""
        state = np.random.SeedSequence((self.config.seed, self.iter)).generate_state(1, np.uint64)
        torch.manual_seed(int(state[0] >> np.uint64(1)))

    def _loss(self, batch: dict[str, Any], model: nn.Module) -> Tensor:
        own = cast(TokenModel, self.model)
        with self.wrapper.optim_context(model):
            losses = model(**own.to_device(batch), mode="loss")
        return own.total(losses)

    def _bad_numbers(self, what: str, batch: dict[str, Any]) -> BadNumbers:
        self._reseed()
        origin = nonfinite.origin(self.model, batch, lambda: self._loss(batch, self.model))
        kept = next((name for name in (checkpoint.LAST, checkpoint.BEST) if (self.path / name).is_file()), None)
        return BadNumbers(
            f"step {self.iter + 1} (epoch {self.epoch + 1}): {what}; {origin}. The batch was {sample_names(batch)}. "
            + (f"The last good checkpoint is {self.path / kept}" if kept else "There is no checkpoint yet")
            + "; a lower lr, a longer warmup or clip_grad may help",
            "--detect-anomaly names the operation",
        )

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
        """An optimizer step is done: it may be time for a checkpoint."""
        if self.told or self.timer.due(self.wrapper.updates):
            self._save()
        self.stop_if_told()

    def stop_if_told(self) -> None:
        """End with a code of its own where the system wants the machine back; the checkpoint is written."""
        if self.told:
            processes.wait()  # for the one that writes it
            name = self.preemption.wanted or "a signal to another process"
            self.console.say(f"stopped by {name} in epoch {self.epoch + 1}: go on with --resume")
            raise SystemExit(RESUMABLE)

    def end_epoch(self) -> bool:
        """Validate, report, keep; True = early stopping."""
        try:
            with self.averaged():
                batches = self.progress.watched(self.loaders["val"], "validation")
                found = measure(self.config.metrics, cast(TokenModel, self.model), batches, self._look_up)
                metrics = found.values
                loop = cast(TrainLoop, self.train_loop)
                loop._epoch += 1
                if self.quantity.best([*self.validated, metrics[self.main]]) == len(self.history):
                    self._write(checkpoint.BEST, dict(model=self.model.state_dict(), **self._about(metrics)))
        except _InValidation:
            self.told = True
            self._save()
            return True
        lr = self.wrapper.optimizer.param_groups[0]["lr"]
        self.progress.end_epoch(lr, found.line)
        self.history.append(dict(epoch=self.epoch, loss=self.progress.mean_loss, lr=lr, **metrics))
        self.seconds += time.perf_counter() - self.progress.epoch_start
        loop.batch = 0
        self.progress.new_epoch()
        self._save()
        self.visualizer.add_scalars(dict(self.history[-1]), step=self.epoch)
        stop = self.out_of_patience()
        last = stop or self.told or self.epoch == self.max_epochs
        if processes.rank() == 0 and (last or time.monotonic() - self.drawn > REDRAWN):
            with report.attempted(picture := self.path / "curves.png"):
                report.curves(picture, self.history, self.main, self.quantity)
            self.drawn = time.monotonic()
        if stop:
            patience = self.config.early_stopping.patience
            self.console.say(f"no better validation {self.main} for {patience} epochs: stopping early")
        return stop

    def _look_up(self) -> None:
        """Between batches of validation, which may be long. With several processes all would have to agree."""
        if self.preemption.wanted and not processes.is_distributed():
            raise _InValidation

    def out_of_patience(self) -> bool:
        patience = (self.config.get("early_stopping") or {}).get("patience")
        if patience is None or not self.history:
            return False
        return len(self.history) - 1 - self.quantity.best(self.validated) >= patience

    @property
    def validated(self) -> list[float]:
        """The main value of each epoch."""
        return [epoch[self.main] for epoch in self.history]

    def _write(self, name: str, content: dict[str, Any], keep: str | None = None) -> None:
        if not nonfinite.finite(content["model"].values()):
            raise BadNumbers(f"after step {self.iter} weights are not finite: they are not saved over {name}")
        if processes.rank() == 0:
            self.ownership.check()
            checkpoint.save(self.path / name, content, keep)

    def _save(self) -> None:
        metrics = {name: v for name, v in (self.history or [{}])[-1].items() if name not in ("epoch", "loss", "lr")}
        self._write(checkpoint.LAST, self._state() | self._about(metrics), keep=checkpoint.PREVIOUS)
        self.timer.restart()

    def _about(self, metrics: dict[str, float]) -> dict[str, Any]:
        return dict(epoch=self.epoch, metrics=metrics, classes=self._classes(), data=self.data, config=self.text)

    def _classes(self) -> list[str]:
        return list(cast(Any, self.train_dataloader.dataset).classes)

    def _state(self) -> dict[str, Any]:
        """All that the rest of a run is a function of, beside its config and its data."""
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
        """Called by the Runner when everything is built."""
        if self._resume:
            self._go_on()
        if processes.rank() == 0:
            saved.write(self.path, absolute(self.config.to_dict()))

    def _go_on(self) -> None:
        path, state = checkpoint.load_newest(self.path)
        check_resumable(self.config, state, self.allow_config_change)
        same_data.check(state, self.data, self._classes(), self.allow_data_change)
        resuming.check_best(self.path, self.model, state["history"], self.main)
        resuming.say_threads(state.get("threads"))
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
        rest = f", {loop.batch} batches into the next" if loop.batch else ""
        print(f"resumed after epoch {self.epoch} of {self.max_epochs}{rest} from {path.name}")


class _InValidation(Exception):
    """The run was told to end while it validated."""


def _visualizer(cfg: Config, work_dir: Path) -> Visualizer:
    kinds = dict(tensorboard="TensorboardVisBackend", wandb="WandbVisBackend")
    chosen = cfg.get("visualizer")
    if chosen and importlib.util.find_spec(chosen) is None:
        raise DataError(f"visualizer='{chosen}' needs a package that is not installed: pip install {chosen}")
    backends: Any = [dict(type="LocalVisBackend")] + ([dict(type=kinds[chosen])] if chosen else [])
    return Visualizer(name=f"{work_dir.name}_{time.time_ns()}", vis_backends=backends, save_dir=str(work_dir))
