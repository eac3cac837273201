"""Pages of the explorer for tests: small models with weights that say something, and files of each modality."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from ndformer.framework.attention_maps import record_attention
from ndformer.framework.data.batches import collate
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.inputs import Preparation
from ndformer.framework.engine.training import checkpoint
from ndformer.framework.model import TokenModel
from ndformer.lab.explorer.arrays import read
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.stream import Events
from tools import explore

CONFIGS = Path(__file__).parents[1] / "configs"
SMALL = ["model.backbone.dim=32", "model.backbone.depth=2", "model.backbone.heads=2", "model.backbone.drop_path=0.0"]
CURVES: dict[str, Any] = dict(
    linear=lambda d, a: -a * d,
    power=lambda d, a, p: -a * d**p * (d > 0),
    logarithm=lambda d, a, p: -p * np.log(1 + a * d),
    gaussian=lambda d, width: -(d**2) / (2 * width**2),
)
KINDS = {  # a config, and the file it is shown with
    "image": ("cifar10_pape.py", "photo.png"),
    "cloud": ("modelnet40_plain_pape.py", "cloud.npy"),
    "video": ("ucf101_pape.py", "film"),
    "events": ("dvsgesture_pape.py", "hand.aedat"),
}


def write_files(home: Path) -> Path:
    """One of each modality."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:32, :32]
    picture = np.stack([8 * x, 8 * y, np.full((32, 32), 90)], -1).astype(np.uint8)
    Image.fromarray(picture).save(home / "photo.png")
    around = rng.normal(size=(600, 3))
    around /= np.linalg.norm(around, axis=1, keepdims=True)
    np.save(home / "cloud.npy", np.concatenate([around * (1, 0.7, 0.5), around], 1).astype(np.float32))
    (home / "film").mkdir()
    for i in range(16):
        Image.fromarray(np.roll(np.kron(picture, np.ones((2, 2, 1), np.uint8)), 3 * i, 1)).save(
            home / f"film/{i:03}.png"
        )
    n, turn = 6000, np.linspace(0, 12, 6000)
    x, y = (np.clip(64 + 40 * f(turn) + rng.normal(0, 4, n), 0, 127).astype(int) for f in (np.cos, np.sin))
    write_aedat3(
        home / "hand.aedat",
        Events.from_arrays(x, y, np.linspace(0, 400_000, n).astype(int), rng.integers(0, 2, n), 128, 128),
    )
    return home


@dataclass
class Run:
    """A config with its options, and the checkpoint of a model of it."""

    config: Path
    options: Sequence[str]
    path: Path
    model: TokenModel
    encoding: str | None
    sample: bool

    def arguments(self, *files: Any, out: Path) -> list[str]:
        named = [] if self.encoding is None else ["--encoding", self.encoding]
        own = [str(self.config), str(self.path), *map(str, files), "--out", str(out), *named]
        own += ["--sample"] * self.sample
        return [*own, "--cfg-options", *self.options] if self.options else own

    @torch.no_grad()
    def looks(self, file: Path) -> list[dict[str, Tensor]]:
        """The terms of each layer, (H, N, N) each, without padding."""
        cfg = load(self.config, list(self.options), self.encoding, self.sample)
        batch = collate([Preparation(cfg, self.model).sample((file,))])
        with record_attention(self.model) as looks:
            self.model.features(batch["inputs"])
        found = []
        for look in looks:
            valid = look.where.valid
            kept = torch.arange(look.x.shape[1]) if valid is None else valid[0].nonzero().flatten()
            found.append({name: one[0][:, kept][:, :, kept] for name, one in look.terms().items() if name != "mask"})
        return found


def run_of(
    folder: Path,
    config: str,
    options: Sequence[str] = SMALL,
    encoding: str | None = None,
    classes: Sequence[str] = (),
    sample: bool = True,
) -> Run:
    """An untrained model whose weights are large enough for heads to look somewhere."""
    path = CONFIGS / config
    cfg = load(path, list(options), encoding, sample)
    torch.manual_seed(0)
    model = build_model(cfg, "cpu").eval()
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and "tokens" not in name:
            torch.nn.init.normal_(weight, std=0.15)
    count = int(model.head.classes)  # type: ignore[arg-type]
    names = [*classes, *(f"class {i}" for i in range(len(classes), count))]
    where = folder / f"{path.stem}_{len(list(folder.iterdir()))}.pth"
    checkpoint.save(where, dict(model=model.state_dict(), classes=names))
    return Run(path, options, where, model, encoding, sample)


def page_of(run: Run, *files: Any, out: Path, more: Sequence[str] = ()) -> str:
    explore.main([*run.arguments(*files, out=out), *more])
    return out.read_text(encoding="utf-8")


def told(page: str) -> tuple[dict[str, Any], dict[str, str]]:
    """What a page says of itself, and its numbers."""
    about = re.search(r'<script type="application/json" id="about">(.*?)</script>', page, re.DOTALL)
    assert about is not None
    return json.loads(about[1]), dict(re.findall(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>', page))


def terms_of(layer: dict[str, Any], text: str, head: int) -> dict[str, np.ndarray]:
    """The terms of a head (N, N), from what a page is told of its layer: each formula written out, in float64."""
    arrays = [read(layer["arrays"], text, number).astype(np.float64) for number in range(len(layer["arrays"]))]
    q, k = (arrays[number][head] for number in layer["semantic"])
    terms = {"semantic": q @ k.T * layer["scale"]}
    for term in layer["terms"]:
        found = np.zeros_like(terms["semantic"])
        r = np.stack([arrays[number] for number in term["axes"]], -1) if "axes" in term else np.zeros((1, 1))
        dr = r[None] - r[:, None]  # (N, N, P): r_j - r_i
        if term["form"] == "polynomial":
            for number, times, powers in zip(term["coefficients"], term["times"], term["exponents"]):
                found += arrays[number][head][:, None] * times * np.prod(dr ** np.array(powers), -1)
        elif term["form"] == "distance":
            own = [numbers[head] for numbers in term["numbers"]]
            found = CURVES[term["curve"]](np.linalg.norm(dr, axis=-1), *own)
        elif term["form"] == "steps":
            found = _steps(arrays, term, head, len(found))
        else:
            values = arrays[term["values"]]
            found = values[head % len(values)]
        hides = term.get("hides", [])
        found[hides], found[:, hides] = 0, 0
        terms[term["name"]] = found
    return terms


def _steps(arrays: list[np.ndarray], term: dict[str, Any], head: int, count: int) -> np.ndarray:
    rows, columns, table = (arrays[term[name]][head % len(arrays[term[name]])] for name in ("rows", "columns", "table"))
    sizes, cells = term["grid"], int(np.prod(term["grid"]))
    table = table.reshape([2 * size - 1 for size in sizes])
    found = np.zeros((count, count))
    found[: count - cells], found[count - cells :, : count - cells] = rows, columns
    for i, here in enumerate(np.ndindex(*sizes)):
        for j, there in enumerate(np.ndindex(*sizes)):
            step = tuple(b - a + size - 1 for a, b, size in zip(here, there, sizes))
            found[count - cells + i, count - cells + j] = table[step]
    return found
