"""A trained model in Python: files, pictures and arrays in, answers out.

model = ndformer.load("work_dirs/mnist_pape/best.pth")
print(model("seven.png"))                      # the likeliest classes, each with its score
model(["seven.png", pixels]).table             # each with its names and scores
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
from ndformer.framework.engine.config.load import told
from ndformer.framework.engine.config.saved import DATA
from ndformer.framework.engine.config.shipped import config_path
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import checkpoint, contents, exported
from ndformer.framework.errors import DataError
from ndformer.framework.heads.head import Head
from ndformer.framework.model import TokenModel
from ndformer.framework.tokens import TokenSet


class Trained(nn.Module):
    """Takes a path, a picture of Pillow, an array, a tensor, points, events, frames - whatever its modalities take - or
    a list of them; of several modalities dict(image=..., points=...). `model` is the network itself, for loops of
    one's own, and `classes` has the names that it was trained on."""

    def __init__(self, model: TokenModel, prepared: Preparation, classes: Sequence[str], at_once: int) -> None:
        super().__init__()
        self.model, self.prepared, self.classes, self.at_once = model, prepared, list(classes), at_once

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def half(self) -> "Trained":
        """Computes in fp16 from now on, as training with amp='fp16' does: positions stay exact, and so do weights."""
        return self._computing_in(torch.float16)

    def bfloat16(self) -> "Trained":
        """The same in bf16."""
        return self._computing_in(torch.bfloat16)

    def float(self) -> "Trained":
        return self._computing_in(None)

    def _computing_in(self, kind: torch.dtype | None) -> "Trained":
        self.model.amp = kind
        return self

    @torch.no_grad()
    def forward(self, x: Any) -> Answer | list[Answer]:
        """The answer for a sample, or those for a list of them, or for a folder."""
        readers, several = self._readers(x)
        answers: list[Answer] = []
        for start in range(0, len(readers), self.at_once):
            answers += self._answers([read() for read in readers[start : start + self.at_once]])
        for answer in answers:
            answer.class_names = self.classes
        return answers if several else answers[0]

    def _answers(self, samples: list[Sample]) -> list[Answer]:
        """Pictures of different sizes go in batches of their own."""
        alike: dict[Any, list[int]] = {}
        for i, sample in enumerate(samples):
            framed = {name: one for name, one in self.prepared.adapters.items() if one.patch_sides is not None}
            sizes = (tuple(sample["inputs"][name].shape[-2:]) for name in framed if name in sample["inputs"])
            alike.setdefault(tuple(sizes), []).append(i)
        found: dict[int, Answer] = {}
        for places in alike.values():
            found |= zip(places, self.model.val_step(collate([samples[i] for i in places])))
        return [found[i] for i in range(len(samples))]

    def tokens(self, x: Any) -> TokenSet:
        """The tokens that it makes of a sample or a list of them: features (B, N, C), and where they are."""
        return self.model.tokens(self._inputs(x))

    def features(self, x: Any) -> TokenSet:
        """The tokens behind the transformer."""
        return self.model.features(self._inputs(x))

    @torch.no_grad()
    def looks(self, x: Any) -> list[AttentionMaps]:
        """What each attention layer was given: look.terms() are its logits by what they come from."""
        with record_attention(self.model) as found:
            self.features(x)
        return found

    def attention(self, x: Any) -> list[Tensor]:
        """(B, H, N, N) of each layer: how much of each token every token takes."""
        return [look.attention() for look in self.looks(x)]

    def _inputs(self, x: Any) -> Any:
        readers, _ = self._readers(x)
        return self.model.to_device(collate([read() for read in readers]))["inputs"]

    def _readers(self, x: Any) -> tuple[list[Callable[[], Sample]], bool]:
        """What reads or takes each sample, and whether they are several, be it a list or a folder of one."""
        given = list(x) if isinstance(x, (list, tuple)) else [x]
        several = isinstance(x, (list, tuple))
        if not given:
            raise DataError("an empty list has no samples: give one or more")
        if not all(isinstance(one, (str, Path)) for one in given):
            return [partial(self._one, one) for one in given], several
        found = self.prepared.samples_in([Path(one) for one in given])
        return [partial(self.prepared.sample, files) for files in found], several or found != [(Path(given[0]),)]

    def _one(self, given: Any) -> Sample:
        if isinstance(given, (str, Path)):
            (files,) = self.prepared.samples_in([Path(given)])
            return self.prepared.sample(files)
        return self.prepared.taken(given)


def load(
    path: str | Path,
    *,
    config: str | Path | None = None,
    device: str | torch.device = "cpu",
    trust_config: bool = False,
) -> Trained:
    """A run's or a published folder, a .pth or a .safetensors file, ready to answer. Its config is the one given, or
    that of its folder, or what the file itself tells; nothing of it runs unless `trust_config`."""
    path = Path(path)
    if path.is_dir():
        path = next((path / name for name in (checkpoint.BEST, exported.PLACE) if (path / name).is_file()), path)
    content = checkpoint.load(path)
    cfg = _config_of(path, content, config, trust_config)
    with torch.random.fork_rng(devices=[]):  # first weights are drawn
        model = build_model(cfg, device, content.get("classes"))
    checkpoint.load_weights(model, content, path)
    prepared = Preparation(cfg, model)
    prepared.trained_on = content.get("data", {}).get("train", {})
    named = sum(part.classes for part in model.modules() if isinstance(part, Head))
    at_once = 1 if model.in_turn else cfg.test_dataloader.batch_size
    return Trained(model, prepared, contents.class_names(content, path, named), at_once).eval()


def _config_of(path: Path, content: dict[str, Any], given: str | Path | None, trusted: bool) -> Config:
    if given is not None:
        return load_config(config_path(str(given)), trusted=trusted)
    if path.with_name(DATA).is_file():
        return load_config(path.with_name(DATA), trusted=trusted)
    if "config" not in content:
        raise DataError(f"{path} tells no config, and no {DATA} is beside it: give config=..., the one that it was of")
    return told(content["config"], path, trusted)
