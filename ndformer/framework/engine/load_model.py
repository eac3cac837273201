"""Trained models in Python: files, images and arrays in, predictions out.

model = ndformer.load("work_dirs/mnist_pape/best.pth")
print(model("seven.png"))                      # the most likely classes with scores
model(["seven.png", pixels]).table             # class names and scores of each
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from mmengine.config import Config
from torch import Tensor, nn

from ndformer.framework.answer import Answer
from ndformer.framework.attention_maps import AttentionMaps, record_attention
from ndformer.framework.data.batches import collate
from ndformer.framework.data.dataset import Sample
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load as load_config
from ndformer.framework.engine.config.load import load_text
from ndformer.framework.engine.config.saved import DATA
from ndformer.framework.engine.config.shipped import config_path, model_folder, model_names
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import checkpoint, contents, exported
from ndformer.framework.errors import DataError, nearest
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet


class LoadedModel(nn.Module):
    """A trained model that is called with data of its modalities.

    It takes a path, a Pillow image, an array, a tensor, points, events or frames, or a list of them; several modalities
    are given as dict(image=..., points=...). `model` is the network, and `classes` are the names of its classes.
    """

    def __init__(self, model: TokenModel, prepared: Preparation, classes: Sequence[str], batch_size: int) -> None:
        super().__init__()
        self.model, self.prepared, self.classes, self.batch_size = model, prepared, list(classes), batch_size

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def half(self) -> "LoadedModel":
        """Compute in fp16 from now on, as in training with amp='fp16'; positions and weights stay in float32."""
        return self._computing_in(torch.float16)

    def bfloat16(self) -> "LoadedModel":
        """Compute in bf16 from now on; positions and weights stay in float32."""
        return self._computing_in(torch.bfloat16)

    def float(self) -> "LoadedModel":
        """Compute in float32 from now on."""
        return self._computing_in(None)

    def _computing_in(self, dtype: torch.dtype | None) -> "LoadedModel":
        self.model.amp = dtype
        return self

    @torch.no_grad()
    def forward(self, x: Any) -> Answer | list[Answer]:
        """Return the answer for a sample, or a list of answers for a list or a folder."""
        readers, several = self._readers(x)
        answers: list[Answer] = []
        for start in range(0, len(readers), self.batch_size):
            answers += self._answers([read() for read in readers[start : start + self.batch_size]])
        for answer in answers:
            answer.class_names = self.classes
        return answers if several else answers[0]

    def _answers(self, samples: list[Sample]) -> list[Answer]:
        """Run the model on samples, with inputs of different sizes in separate batches."""
        by_size: dict[Any, list[int]] = {}
        for i, sample in enumerate(samples):
            names = [name for name, adapter in self.prepared.adapters.items() if adapter.patch_sides is not None]
            sizes = (tuple(sample["inputs"][name].shape[-2:]) for name in names if name in sample["inputs"])
            by_size.setdefault(tuple(sizes), []).append(i)
        answers: dict[int, Answer] = {}
        for indices in by_size.values():
            answers |= zip(indices, self.model.val_step(collate([samples[i] for i in indices])))
        return [answers[i] for i in range(len(samples))]

    def tokens(self, x: Any) -> TokenSet:
        """Return the input tokens of one or more samples: features (B, N, C) and their positions."""
        with self.model.precision():
            return self.model.tokens(self._inputs(x))

    def features(self, x: Any) -> TokenSet:
        """Return the tokens after the backbone."""
        with self.model.precision():
            return self.model.features(self._inputs(x))

    @torch.no_grad()
    def looks(self, x: Any) -> list[AttentionMaps]:
        """Return the inputs of each attention layer; `terms()` of one are its logits by origin."""
        with record_attention(self.model) as maps:
            self.features(x)
        return maps

    def attention(self, x: Any) -> list[Tensor]:
        """Return the attention weights (B, H, N, N) of each layer."""
        return [maps.attention() for maps in self.looks(x)]

    def _inputs(self, x: Any) -> Any:
        readers, _ = self._readers(x)
        return self.model.to_device(collate([read() for read in readers]))["inputs"]

    def _readers(self, x: Any) -> tuple[list[Callable[[], Sample]], bool]:
        """Return a function that reads each sample, and whether `x` is a list or a folder."""
        values = list(x) if isinstance(x, (list, tuple)) else [x]
        several = isinstance(x, (list, tuple))
        if not values:
            raise DataError("expected one sample or more, got an empty list")
        if not all(isinstance(value, (str, Path)) for value in values):
            return [partial(self._sample, value) for value in values], several
        groups = self.prepared.samples_in([Path(value) for value in values])
        return [partial(self.prepared.sample, files) for files in groups], several or groups != [(Path(values[0]),)]

    def _sample(self, value: Any) -> Sample:
        if isinstance(value, (str, Path)):
            (files,) = self.prepared.samples_in([Path(value)])
            return self.prepared.sample(files)
        return self.prepared.sample_from_memory(value)


def load(
    path: str | Path,
    *,
    config: str | Path | None = None,
    device: str | torch.device = "cpu",
    trust_config: bool = False,
) -> LoadedModel:
    """Load a trained model: of a run's or a published folder, a .pth or .safetensors file, or by a name, "qm9-small".

    The config is `config` or, if it is not given, that of the folder or the one in the file. With `trust_config` the
    modules that it lists are imported.
    """
    path = model_folder(path)
    if path.suffix == "" and not path.exists() and path.name == str(path):
        names = ", ".join(model_names())
        raise DataError(
            f"expected a folder, a file or the name of a shipped model ({names}), got '{path}'"
            + nearest(str(path), model_names())
        )
    if path.is_dir():
        path = next((path / name for name in (checkpoint.BEST, exported.FILE) if checkpoint.exists(path / name)), path)
    content = checkpoint.load(path)
    cfg = _load_config(path, content, config, trust_config)
    with torch.random.fork_rng(devices=[]):  # building draws random weights
        model = build_model(cfg, device, content.get("classes"))
    checkpoint.load_weights(model, content, path)
    prepared = Preparation(cfg, model)
    prepared.train_fingerprint = content.get("data", {}).get("train", {})
    count = sum(head.classes for head in model.modules() if isinstance(head, Head))
    batch_size = 1 if model.in_turn else cfg.test_dataloader.batch_size
    return LoadedModel(model, prepared, contents.class_names(content, path, count), batch_size).eval()


def _load_config(path: Path, content: dict[str, Any], config: str | Path | None, trusted: bool) -> Config:
    if config is not None:
        return load_config(config_path(str(config)), trusted=trusted)
    if path.with_name(DATA).is_file():
        return load_config(path.with_name(DATA), trusted=trusted)
    if "config" not in content:
        raise DataError(
            f"{path} contains no config, and its folder has no {DATA}: give config=..., the config of the run"
        )
    return load_text(content["config"], path, trusted)
