"""From a checked config to a trained and tested model.

train(cfg, work_dir, resume=False)    trains, tests the best checkpoint once, at the end, and reports
evaluate(cfg, model, loader)          metrics of a model over exactly a whole set
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

from ndformer.framework.data.dataset import TEST_IS_VAL
from ndformer.framework.data.workers import workers_explained
from ndformer.framework.engine.building import (
    STAND_IN,
    build_model,
    check_classes,
    dataset_name,
    encoding_name,
    on_stand_in,
    rehearse,
)
from ndformer.framework.engine.calibration import fitted
from ndformer.framework.engine.training import checkpoint, pretrained, same_data
from ndformer.framework.engine.training.agreement import check_data, check_settings
from ndformer.framework.engine.training.console import LOG, logged
from ndformer.framework.engine.training.evaluate import Evaluation, as_line, measure
from ndformer.framework.engine.training.leakage import check_apart
from ndformer.framework.engine.training.loading import Loader, all_bad, build_loader, tell_bad
from ndformer.framework.engine.training.owner import owned
from ndformer.framework.engine.training.work_dir import RESULTS, begun, check_free, clear
from ndformer.framework.evaluation.metric import find_quantity
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures import runs as report
from ndformer.framework.system import atomic, host_state, processes

if TYPE_CHECKING:
    from ndformer.framework.engine.training.trainer import Trainer


Tested = Callable[[Config, TokenModel, Loader, Evaluation], None]  # the best checkpoint's model, and what it answered


def train(
    cfg: Config,
    work_dir: Path,
    resume: bool = False,
    allow_config_change: bool = False,
    allow_data_change: bool = False,
    overwrite: bool = True,
    tested: Tested | None = None,
) -> dict[str, Any]:
    """The results, as in results.json; `tested` is called when they are written. A signal to end, as clusters send it,
    saves and raises SystemExit(75)."""
    # not before: mmengine's optimizers import FSDP and sympy, which would make every program's start a second longer
    from ndformer.framework.engine.training.trainer import Trainer

    with host_state.running():
        return _train(Trainer, cfg, work_dir, resume, allow_config_change, allow_data_change, overwrite, tested)


def _train(
    kind: type[Trainer],
    cfg: Config,
    work_dir: Path,
    resume: bool,
    allow_config_change: bool,
    allow_data_change: bool,
    overwrite: bool,
    tested: Tested | None,
) -> dict[str, Any]:
    check_settings(cfg, resume=resume, allow_config_change=allow_config_change, overwrite=overwrite)
    cfg, said = fitted(cfg)
    torch.manual_seed(cfg.seed)
    model = build_model(cfg)  # first: what is wrong with it shows at once
    rehearse(cfg, model)
    loaders = {split: build_loader(cfg, split) for split in ("train", "val", "test")}
    check_data({s: loader.data for s, loader in loaders.items()}, {s: len(loader) for s, loader in loaders.items()})
    check_classes(model, loaders["train"])
    check_apart(cfg, {split: loader.data for split, loader in loaders.items()})
    if cfg.get("weights") and not resume:
        said += pretrained.begin(model, cfg)
    with owned(work_dir) as ownership:
        resume = processes.collected(begun(work_dir))[0] if ownership.again else resume
        if ownership.first:
            check_free(work_dir, resume, overwrite)
            if not resume:
                clear(work_dir)
        processes.wait()
        ownership.begin()
        with logged(work_dir / LOG if ownership.first else None) as console:
            for sentence in said:
                console.say(sentence)
            changes = allow_config_change, allow_data_change
            trainer = kind(cfg, ownership, loaders, model, console, resume, *changes)
            return _run(cfg, work_dir, model, loaders, trainer, tested)


def _run(
    cfg: Config,
    work_dir: Path,
    model: TokenModel,
    loaders: dict[str, Loader],
    trainer: Trainer,
    tested: Tested | None,
) -> dict[str, Any]:
    params = sum(p.numel() for p in model.parameters())
    sizes = ", ".join(f"{len(loader.data)} {split}" for split, loader in loaders.items())
    print(f"{encoding_name(cfg)} on {dataset_name(cfg)}: {sizes}; {params / 1e6:.2f} M parameters; {work_dir}")
    if loaders["test"].data.test_is_val:
        print(TEST_IS_VAL + "; validation samples are held out of train" * (not loaders["val"].data.val_is_test))
    with trainer.preemption, workers_explained(), _anomalies(cfg):
        trainer.train()
        trainer.preemption.at_once = True  # all is saved
        processes.wait()
        best = checkpoint.load(work_dir / checkpoint.BEST)
        checkpoint.load_weights(model, best, work_dir / checkpoint.BEST)
        after = f", after epoch {best['epoch']} of {cfg.train_cfg.max_epochs}" if "epoch" in best else ""
        quantities = {name: find_quantity(cfg.metrics, name) for name in best["metrics"]}
        print(f"best on validation: {as_line(best['metrics'], quantities)}{after}")
        return finish(cfg, work_dir, model, loaders, best["metrics"], trainer, tested)


def _anomalies(cfg: Config) -> contextlib.AbstractContextManager[Any]:
    if not cfg.train_cfg.get("detect_anomaly"):
        return contextlib.nullcontext()
    warnings.filterwarnings("ignore", message="Anomaly Detection has been enabled")
    return torch.autograd.set_detect_anomaly(True)


def finish(
    cfg: Config,
    work_dir: Path,
    model: TokenModel,
    loaders: dict[str, Loader],
    val: dict[str, float],
    run: Trainer,
    tested: Tested | None,
) -> dict[str, Any]:
    """Test the best checkpoint, write results.json and the pictures."""
    same_data.tell_of_absent(loaders["test"].data)
    found = evaluate(cfg, model, run.progress.watched(loaders["test"], "test"))
    content = dict(
        config=str(cfg.filename),
        encoding=encoding_name(cfg),
        dataset=dataset_name(cfg),
        test=found.values,
        val=val,
        main_metric=run.main,
        quantities={name: asdict(one) for name, one in found.quantities.items()},
        epochs=run.epoch,
        seed=cfg.seed,
        params=sum(p.numel() for p in model.parameters()),
        minutes=run.seconds / 60,
    )
    if on_stand_in(cfg):
        content["sample"] = True
        print(STAND_IN)
    if loaders["test"].data.test_is_val:
        content["test_is_val"] = True
    if loaders["val"].data.val_is_test:
        content["val_is_test"] = True
        print(
            "validation was the test set itself (val_is_test): the test figure is the best of all epochs, and flatters"
        )
    bad = all_bad(loaders)
    if bad:
        content["bad"] = bad
        tell_bad(bad, "results.json has them all")
    if processes.rank() == 0:
        report.results(work_dir / RESULTS, content)
        classes = loaders["test"].data.classes
        for metric in found.metrics:
            table = metric.views(None, classes)
            if table is not None:
                atomic.write(work_dir / "classes.txt", table + "\n")
            with report.attempted(f"what {type(metric).__name__} shows"):
                metric.views(work_dir, classes)
            if metric.confusion is not None:
                with report.attempted(picture := work_dir / "confusion_matrix.png"):
                    report.confusion_matrix(picture, metric.confusion, classes)
    print(f"test, with the checkpoint best on validation: {found.line}   ({content['minutes']:.1f} min of training)")
    print(work_dir / RESULTS)
    if processes.rank() == 0 and tested is not None:
        tested(cfg, model, loaders["test"], found)
    return content


def evaluate(cfg: Config, model: TokenModel, loader: Iterable[dict[str, Any]]) -> Evaluation:
    """Metrics of a model over exactly the whole set."""
    return measure(cfg.metrics, model, loader)
