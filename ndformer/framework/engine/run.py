"""Training and evaluation of a config.

train(cfg, work_dir, resume=False)    trains, tests the best checkpoint once at the end, writes the results
evaluate(cfg, model, loader)          computes the metrics of a model on a dataset
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from mmengine.config import Config

from ndformer.framework.data.batches import Batches
from ndformer.framework.data.dataset import TEST_IS_VAL
from ndformer.framework.data.fingerprint import warn_absent_classes
from ndformer.framework.data.workers import workers_explained
from ndformer.framework.engine.building import (
    STAND_IN,
    build_model,
    check_classes,
    dataset_name,
    encoding_name,
    fit_heads,
    on_stand_in,
    rehearse,
)
from ndformer.framework.engine.calibration import calibrate
from ndformer.framework.engine.config import saved
from ndformer.framework.engine.training import checkpoint, pretrained
from ndformer.framework.engine.training.agreement import check_data, check_settings
from ndformer.framework.engine.training.console import LOG, logged
from ndformer.framework.engine.training.evaluate import LINE, Evaluation, as_line, measure
from ndformer.framework.engine.training.leakage import check_leakage
from ndformer.framework.engine.training.loading import Loader, all_bad, build_loader, dropped_warning, print_bad
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.engine.training.work_dir import RESULTS, begun, check_free, clear
from ndformer.framework.evaluation.metric import find_quantity
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures import runs as report
from ndformer.framework.system import atomic, host_state, processes

if TYPE_CHECKING:
    from ndformer.framework.engine.training.trainer import Trainer


FEW_VALIDATION = 50  # the standard error of an accuracy of 90 % is 4 points with so many

OnTested = Callable[[Config, TokenModel, Loader, Evaluation], None]  # called with the best checkpoint's model
OnMeasured = Callable[[Loader, Evaluation], None]


@host_state.running()
def train(
    cfg: Config,
    work_dir: Path,
    resume: bool = False,
    allow_config_change: bool = False,
    allow_data_change: bool = False,
    overwrite: bool = False,
    on_tested: OnTested | None = None,
    profile: tuple[int, int] | None = None,
    on_measured: OnMeasured | None = None,
) -> dict[str, Any]:
    """Train and test a model; return the results as in results.json. `overwrite` replaces a run in the folder.

    `on_tested` is called once they are written, `on_measured` before that. `profile` is the first and the last step for
    torch.profiler to record. A signal to stop, as clusters send it, saves a checkpoint and raises SystemExit(75).
    """
    # Imported here, since mmengine's optimizers import FSDP and sympy, which delays the start of every program by a
    # second
    from ndformer.framework.engine.training.trainer import Trainer

    check_settings(cfg, resume=resume, allow_config_change=allow_config_change, overwrite=overwrite)
    known = work_dir / saved.DATA
    cfg, messages = calibrate(cfg, saved.read(known) if resume and known.is_file() else None)
    torch.manual_seed(cfg.seed)
    model = build_model(cfg)  # before the data, so that its errors appear at once
    rehearse(cfg, model)
    loaders = {split: build_loader(cfg, split) for split in ("train", "val", "test")}
    check_data({s: loader.data for s, loader in loaders.items()}, {s: len(loader) for s, loader in loaders.items()})
    check_classes(model, loaders["train"])
    check_leakage(cfg, {split: loader.data for split, loader in loaders.items()})
    for split in ("val", "test"):
        _ = loaders[split].data[0]  # wrong transforms end the run here, and not after an epoch
    if isinstance(batches := loaders["train"].batch_sampler, Batches):
        messages += filter(None, [dropped_warning(batches)])
    if cfg.get("weights") and not resume:
        messages += pretrained.begin(model, cfg)
    fit_heads(model, loaders["train"])
    with owned(work_dir) as ownership:
        resume = processes.gather_objects(begun(work_dir))[0] if ownership.again else resume
        if ownership.first:
            check_free(work_dir, resume, overwrite)
            if not resume:
                clear(work_dir)
        processes.wait()
        ownership.begin()
        with logged(work_dir / LOG if ownership.first else None) as console:
            for message in messages:
                console.print(message)
            changes = allow_config_change, allow_data_change
            trainer = Trainer(cfg, ownership, loaders, model, console, resume, *changes, profile)
            return _run(trainer, on_measured, on_tested)


def _run(trainer: Trainer, on_measured: OnMeasured | None, on_tested: OnTested | None) -> dict[str, Any]:
    cfg, model, loaders, work_dir = trainer.cfg, trainer.model, trainer.loaders, trainer.folder
    params = sum(p.numel() for p in model.parameters())
    sizes = ", ".join(f"{len(loader.data)} {split}" for split, loader in loaders.items())
    generated = " (generated)" if on_stand_in(cfg) else ""
    print(
        f"{encoding_name(cfg)} on {dataset_name(cfg)}{generated}: {sizes}; {params / 1e6:.2f} M parameters; {work_dir}"
    )
    if loaders["test"].data.test_is_val:
        print(TEST_IS_VAL + "; validation samples are held out of train" * (not loaders["val"].data.val_is_test))
    if len(loaders["val"].data) < FEW_VALIDATION:
        print(
            f"only {len(loaders['val'].data)} validation samples choose the best checkpoint, which is then partly a "
            f"matter of chance: {FEW_VALIDATION} or more choose better"
        )
    from ndformer.framework.engine.training import run_state  # imports as much as the trainer

    with trainer.preemption, trainer.watchdog, workers_explained(), _anomalies(cfg):
        trainer.train()
        trainer.preemption.exit_immediately = True  # everything is saved
        processes.wait()
        best = run_state.load_best(trainer)
        after = f", after epoch {best['epoch']} of {cfg.train_cfg.max_epochs}" if "epoch" in best else ""
        quantities = {name: find_quantity(cfg.metrics, name) for name in best["metrics"]}
        print(f"best on validation: {as_line(best['metrics'], quantities, LINE)}{after}")
        return finish(trainer, best["metrics"], on_measured, on_tested)


def _anomalies(cfg: Config) -> contextlib.AbstractContextManager[Any]:
    if not cfg.train_cfg.get("detect_anomaly"):
        return contextlib.nullcontext()
    warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
    return torch.autograd.set_detect_anomaly(True)


def finish(
    trainer: Trainer, val: dict[str, float], on_measured: OnMeasured | None, on_tested: OnTested | None
) -> dict[str, Any]:
    """Test the best checkpoint, and write results.json and the pictures."""
    cfg, model, loaders, work_dir = trainer.cfg, trainer.model, trainer.loaders, trainer.folder
    warn_absent_classes(loaders["test"].data)
    batches = trainer.progress.with_progress(loaders["test"], "test")
    evaluation = measure(cfg.metrics, model, batches, trainer.call_hook, mode="test")
    content = dict(
        config=str(cfg.filename),
        encoding=encoding_name(cfg),
        dataset=dataset_name(cfg),
        test=evaluation.values,
        val=val,
        main_metric=trainer.history.main,
        quantities={name: asdict(quantity) for name, quantity in evaluation.quantities.items()},
        epochs=trainer.epoch,
        seed=cfg.seed,
        params=sum(p.numel() for p in model.parameters()),
        minutes=trainer.seconds / 60,
    )
    if on_stand_in(cfg):
        content["sample"] = True
        print(STAND_IN)
    if loaders["test"].data.test_is_val:
        content["test_is_val"] = True
    if loaders["val"].data.val_is_test:
        content["val_is_test"] = True
        print(
            "the validation set is the test set (val_is_test): the test metric is the best of all epochs, so it is too "
            "high"
        )
    bad = all_bad(loaders)
    if bad:
        content["bad"] = bad
        print_bad(bad, "results.json has them all")
    if processes.rank() == 0:
        if on_measured is not None:
            on_measured(loaders["test"], evaluation)
        report.results(work_dir / RESULTS, content)
        classes = loaders["test"].data.classes
        for metric in evaluation.metrics:
            table = metric.views(None, classes)
            if table is not None:
                atomic.write(work_dir / "classes.txt", table + "\n")
            with report.attempted(f"pictures of {type(metric).__name__}"):
                metric.views(work_dir, classes)
            if metric.confusion is not None:
                with report.attempted(picture := work_dir / "confusion_matrix.png"):
                    report.confusion_matrix(picture, metric.confusion, classes)
    print(
        f"test, with the checkpoint best on validation: {evaluation.line}   ({content['minutes']:.1f} min of training)"
    )
    for remark in filter(None, (metric.remark for metric in evaluation.metrics)):
        print(remark)
    print(work_dir / RESULTS)
    if processes.rank() == 0 and on_tested is not None:
        if trainer.saver is not None:  # what follows runs on this process alone
            model = build_model(cfg)
            checkpoint.load_weights(model, checkpoint.load(work_dir / checkpoint.BEST), work_dir / checkpoint.BEST)
        on_tested(cfg, model, loaders["test"], evaluation)
    return content


def evaluate(cfg: Config, model: TokenModel, loader: Iterable[dict[str, Any]]) -> Evaluation:
    """Compute the metrics of a model on every sample of a loader."""
    return measure(cfg.metrics, model, loader)
