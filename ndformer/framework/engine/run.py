"""From a checked config to a trained and tested model.

train(cfg, work_dir, resume=False)    trains, tests the best checkpoint once, at the end, and reports
evaluate(cfg, model, loader)          metrics of a model over exactly a whole set
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch.utils.data import DataLoader

from ndformer.framework.data import DataError, Dataset, EpochSampler, collate
from ndformer.framework.engine import checkpoint, report
from ndformer.framework.engine.compat import Evaluator
from ndformer.framework.engine.trainer import Trainer
from ndformer.framework.model import TokenModel
from ndformer.framework.registry import DATASETS, METRICS


def train(cfg: Config, work_dir: Path, resume: bool = False) -> dict[str, Any]:
    """The results, as in results.json."""
    torch.manual_seed(cfg.seed)
    loaders = {split: build_loader(cfg, split) for split in ("train", "val", "test")}
    torch.manual_seed(cfg.seed)
    model = build_model(cfg)
    work_dir.mkdir(parents=True, exist_ok=True)
    (work_dir / "config.py").write_text(cfg.pretty_text, encoding="utf-8")
    trainer = Trainer(cfg, work_dir, loaders, model)
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
    test_metrics, metrics = evaluate(cfg, model, loader)
    content = dict(
        config=str(cfg.filename),
        encoding=encoding_name(cfg),
        dataset=cfg.train_dataloader.dataset.type,
        test=test_metrics,
        val=val,
        epochs=run.epoch,
        seed=cfg.seed,
        params=sum(p.numel() for p in model.parameters()),
        minutes=run.seconds / 60,
    )
    if cfg.val_dataloader.dataset.get("val_is_test"):
        content["val_is_test"] = True
        print(
            "validation was the test set itself (val_is_test): the test figure is the best of all epochs, and flatters"
        )
    report.results(work_dir / "results.json", content)
    for metric in metrics:
        if hasattr(metric, "confusion"):
            report.confusion_matrix(work_dir / "confusion_matrix.png", metric.confusion, loader.dataset.classes)  # pyright: ignore[reportAttributeAccessIssue]
    text = "  ".join(f"{name} {value:.4f}" for name, value in test_metrics.items())
    print(f"test, with the checkpoint best on validation: {text}   ({run.seconds / 60:.1f} min of training)")
    print(work_dir / "results.json")
    return content


@torch.no_grad()
def evaluate(cfg: Config, model: TokenModel, loader: DataLoader[Any]) -> tuple[dict[str, float], list[Any]]:
    """Metrics of a model over exactly the whole set, and the metric objects."""
    metrics = [METRICS.create(m) for m in cfg.metrics]
    evaluator = Evaluator(metrics)
    model.eval()
    for batch in loader:
        evaluator.process(data_samples=model.val_step(batch), data_batch=batch)
    return evaluator.evaluate(len(loader.dataset)), metrics  # pyright: ignore[reportArgumentType]


def build_model(cfg: Config) -> TokenModel:
    return TokenModel(**{key: value for key, value in cfg.model.items() if key != "type"})


def build_loader(cfg: Config, split: str) -> DataLoader[Any]:
    options = dict(cfg[f"{split}_dataloader"])
    dataset: Dataset = DATASETS.create(options.pop("dataset"))
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
