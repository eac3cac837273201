"""From a checked config to a trained and tested model.

train(cfg, work_dir, resume=False)    trains, tests the best checkpoint once, at the end, and reports
evaluate(cfg, model, loader)          metrics of a model over exactly a whole set
"""

from __future__ import annotations

import csv
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch.utils.data import DataLoader

from ndformer.framework.data import DataError, Dataset, EpochSampler, collate
from ndformer.framework.engine import checkpoint, report
from ndformer.framework.engine.compat import Evaluator
from ndformer.framework.engine.samples import MARK, make_sample
from ndformer.framework.engine.trainer import Trainer
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS, METRICS, MODELS


def train(cfg: Config, work_dir: Path, resume: bool = False) -> dict[str, Any]:
    """The results, as in results.json."""
    torch.manual_seed(cfg.seed)
    loaders = {split: build_loader(cfg, split) for split in ("train", "val", "test")}
    torch.manual_seed(cfg.seed)
    model = build_model(cfg)
    work_dir.mkdir(parents=True, exist_ok=True)
    trainer = Trainer(cfg, work_dir, loaders, model)
    (work_dir / "config.py").write_text(cfg.pretty_text, encoding="utf-8")
    trainer._resume = resume
    torch.manual_seed(cfg.seed)
    params = sum(p.numel() for p in model.parameters())
    sizes = ", ".join(f"{len(loader.dataset)} {split}" for split, loader in loaders.items())  # pyright: ignore[reportArgumentType]
    dataset = cfg.train_dataloader.dataset.type
    print(f"{encoding_name(cfg)} on {dataset}: {sizes}; {params / 1e6:.2f} M parameters; {work_dir}")
    trainer.train()
    best = checkpoint.load(work_dir / "best.pth")
    checkpoint.load_weights(model, best, work_dir / "best.pth")
    return finish(cfg, work_dir, model, loaders["test"], best["metrics"], trainer)


def finish(
    cfg: Config, work_dir: Path, model: TokenModel, loader: DataLoader[Any], val: dict[str, float], run: Trainer
) -> dict[str, Any]:
    """Test the best checkpoint, write results.json and the pictures."""
    tested = evaluate(cfg, model, loader)
    content = dict(
        config=str(cfg.filename),
        encoding=encoding_name(cfg),
        dataset=cfg.train_dataloader.dataset.type,
        test=tested.values,
        val=val,
        epochs=run.epoch,
        seed=cfg.seed,
        params=sum(p.numel() for p in model.parameters()),
        minutes=run.seconds / 60,
    )
    if (Path(cfg.train_dataloader.dataset.data_root) / MARK).exists():
        content["sample"] = True
        print("on the generated stand-in: these figures say nothing about the dataset of that name")
    if cfg.val_dataloader.dataset.get("val_is_test"):
        content["val_is_test"] = True
        print(
            "validation was the test set itself (val_is_test): the test figure is the best of all epochs, and flatters"
        )
    report.results(work_dir / "results.json", content)
    for metric in tested.metrics:
        if hasattr(metric, "confusion"):
            report.confusion_matrix(work_dir / "confusion_matrix.png", metric.confusion, loader.dataset.classes)  # pyright: ignore[reportAttributeAccessIssue]
    text = "  ".join(f"{name} {value:.4f}" for name, value in tested.values.items())
    print(f"test, with the checkpoint best on validation: {text}   ({run.seconds / 60:.1f} min of training)")
    print(work_dir / "results.json")
    return content


@dataclass
class Evaluation:
    values: dict[str, float]
    metrics: list[Any]  # the metric objects, with what else they know
    predictions: list[dict[str, Any]]  # one per sample


@torch.no_grad()
def evaluate(cfg: Config, model: TokenModel, loader: DataLoader[Any]) -> Evaluation:
    """Metrics of a model over exactly the whole set."""
    metrics = [METRICS.create(m) for m in cfg.metrics]
    evaluator = Evaluator(metrics)
    model.eval()
    predictions = []
    for batch in loader:
        found = model.val_step(batch)
        evaluator.process(data_samples=found, data_batch=batch)
        predictions += found
    return Evaluation(evaluator.evaluate(len(loader.dataset)), metrics, predictions)  # pyright: ignore[reportArgumentType]


def write_predictions(path: Path, predictions: list[dict[str, Any]], classes: list[str]) -> None:
    """What was predicted for each sample, with the score of every class, as .csv or .json."""
    rows = []
    for p in predictions:
        scores = {name: round(score, 6) for name, score in zip(classes, p["scores"].tolist())}
        truth = classes[p["label"]] if p.get("label", -1) >= 0 else ""
        rows.append(dict(path=p.get("path", ""), truth=truth, prediction=classes[p["prediction"]], **scores))
    if path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    elif path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        raise ValueError(f"predictions are written as .csv or .json, got {path}")


def prepare_data(cfg: Config, sample: bool) -> None:
    """With --sample, make the generated stand-in where it is not there yet; without, refuse to take one for real."""
    home = Path(cfg.train_dataloader.dataset.data_root)
    sample = sample or cfg.get("sample") == {}  # the config of a run with --sample
    if sample and (not home.exists() or not any(home.iterdir())):
        print(f"making the sample of {cfg.sample_data} in {home}")
        make_sample(cfg.sample_data, home)
    if not sample and (home / MARK).exists():
        raise DataError(f"{home} holds the generated stand-in, not the dataset: add --sample, or another --data-root")


def build_model(cfg: Config) -> TokenModel:
    model: TokenModel = MODELS.create(cfg.model)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return model


def build_loader(cfg: Config, split: str) -> DataLoader[Any]:
    options = dict(cfg[f"{split}_dataloader"])
    dataset: Dataset = DATASETS.create(options.pop("dataset"), seed=cfg.seed)
    if len(dataset) == 0:
        raise DataError(f"{type(dataset).__name__} has no {split} samples under {dataset.data_root}")
    workers = options.pop("num_workers", 0)
    return DataLoader(
        dataset,
        batch_size=min(options.pop("batch_size"), len(dataset)),
        sampler=EpochSampler(len(dataset), shuffle=split == "train", seed=cfg.seed),
        num_workers=workers,
        collate_fn=collate,
        drop_last=split == "train",
        persistent_workers=workers > 0,
        pin_memory=torch.cuda.is_available(),
        **options,
    )


def encoding_name(cfg: Config) -> str:
    encoding = cfg.model.backbone.get("encoding")
    if encoding is None:
        return "NoPE"
    return encoding["type"] if isinstance(encoding, dict) else "+".join(part["type"] for part in encoding)
