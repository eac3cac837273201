"""Inspection of trained image models: attention maps, and accuracy on shifted images."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.cli.attention_picture import Painting
from ndformer.framework.attention_maps import AttentionMaps, on_grid, record_attention
from ndformer.framework.data.batches import collate
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.run import build_loader
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.canvas import GridCanvas
from ndformer.framework.pictures.figures import Panels
from ndformer.framework.tokens import Where
from ndformer.lab.verdicts import Claim, ahead, combine
from ndformer.studies.small import ENDINGS, Control, split_control
from ndformer.studies.training import Run

IMAGES = 64  # evenly spread over the test set, which may be sorted by class
UNTRAINED = ", untrained"
STATES = ("", UNTRAINED, *ENDINGS)  # of a model, as a row ends in them


def split_state(row: str) -> tuple[str, bool, Control]:
    """Return the name of a row without its state, whether its model is untrained, and its control."""
    name, control = split_control(row)
    return name.removesuffix(UNTRAINED), name.endswith(UNTRAINED), control


def over_state(text: str, names: Iterable[str], state: str, column: str) -> Claim:
    """Claim that a value is larger than in another state of the model."""
    return combine(text, [ahead("", name, name + state, column) for name in names])


def inspect_run(run: Run, untrained: bool) -> tuple[TokenModel, list[AttentionMaps], Tensor]:
    """Return a run's model, the attention of its layers on some test images, and these images (B, C, H, W).

    If the model shuffles positions, the patches of the images are permuted in the same way.
    """
    settings = run.settings
    torch.manual_seed(settings.seed)  # of an untrained model
    model = run.model(untrained)
    data = build_loader(settings, "test").data
    count = min(IMAGES, len(data))
    batch = collate([data[i * len(data) // count] for i in range(count)])
    images = model.to_device(batch)["inputs"]["image"]
    with record_attention(model) as layer_maps, torch.no_grad():
        model.features(dict(image=images))
    return model, layer_maps, shuffled_images(images, model, layer_maps[0].where)


def shuffled_images(images: Tensor, model: nn.Module, where: Where) -> Tensor:
    """Return images with their patches permuted as in the control of shuffled positions, if the model has it."""
    assert where.grid is not None
    size = images.shape[2] // where.grid[0], images.shape[3] // where.grid[1]
    for shuffled in model.modules():
        if type(shuffled).__name__ != "Shuffled":  # to import the class would register it
            continue
        patches = F.unfold(images, size, stride=size).mT  # (B, N, pixels of one)
        before = where.positions.shape[1] - patches.shape[1]
        tokens = cast(PositionEncoding, shuffled).embed(F.pad(patches, (0, 0, before, 0)), where)
        images = F.fold(tokens[:, before:].mT, images.shape[2:], size, stride=size)
    return images


@torch.no_grad()
def accuracy_moved(run: Run, pixels: int) -> float:
    """Return the accuracy in % on all test images, shifted cyclically down and right."""
    model, right, count = run.model(), 0, 0
    for batch in build_loader(run.settings, "test"):
        images = model.to_device(batch)["inputs"]["image"].roll((pixels, pixels), (2, 3))
        labels = torch.tensor([sample["label"] for sample in batch["data_samples"]])
        right += int((model(dict(image=images)).argmax(1).cpu() == labels).sum())
        count += len(labels)
    return 100 * right / count


def brightness(images: Tensor, where: Where) -> Tensor:
    """Return the mean of each patch, (B, rows, columns)."""
    assert where.grid is not None
    rows, columns = where.grid
    return F.adaptive_avg_pool2d(images.mean(1), (rows, columns))


def brightest(images: Tensor, where: Where) -> int:
    """Return the token of the brightest patch of the first image."""
    patches = brightness(images[:1], where)[0]
    return where.positions.shape[1] - patches.numel() + int(patches.argmax())


def draw_maps(path: Path, title: str, layer_map: AttentionMaps, images: Tensor, blocks: Sequence[Panels]) -> None:
    """Draw maps of the first image for its brightest patch: blocks of (heads, N) values for N patches."""
    assert layer_map.where.grid is not None
    query = brightest(images, layer_map.where)
    canvas = GridCanvas(as_picture(images[0])[None], layer_map.where.grid)
    heads = [f"head {head}" for head in range(1, blocks[0].values.shape[1] + 1)]
    patch = query - layer_map.where.positions.shape[1] + len(canvas.coordinates)
    path.parent.mkdir(parents=True, exist_ok=True)
    Painting(title, blocks, [""], heads, [patch], canvas).save(path)


def attention_maps(layer_map: AttentionMaps, images: Tensor) -> dict[str, np.ndarray]:
    """Return each term and the attention of the brightest patch over all patches of the first image, (1, H, N)."""
    query = brightest(images, layer_map.where)
    terms = layer_map.terms() | dict(attention=layer_map.attention())
    return {name: on_grid(term[:1, :, query], layer_map.where).flatten(2).numpy() for name, term in terms.items()}


def as_picture(image: Tensor) -> np.ndarray:
    """Return a normalized image (C, H, W) as (H, W, 3) uint8, scaled to the full range."""
    low, high = image.amin(), image.amax()
    return ((image - low) / (high - low) * 255).expand(3, -1, -1).permute(1, 2, 0).byte().numpy()
