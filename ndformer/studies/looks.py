"""Trained models of images looked into: what attention is given, and what is lost where images move."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ndformer.framework.attention_maps import Look, looking, on_grid
from ndformer.framework.data.batches import collate
from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.engine.run import build_loader
from ndformer.framework.model import TokenModel
from ndformer.framework.pictures.attention import Painting
from ndformer.framework.pictures.canvas import GridCanvas
from ndformer.framework.pictures.figures import Panels
from ndformer.framework.tokens import Where
from ndformer.studies.small import Control
from ndformer.studies.training import Run

IMAGES = 64  # spread evenly over the test set, which may lie class by class
STATES: dict[str, tuple[bool, Control]] = {  # behind the name of a row -> untrained, control
    "": (False, ""),
    ", untrained": (True, ""),
    ", labels at random": (False, "labels"),
    ", places shuffled": (False, "places"),
}


def seen(found: Run, untrained: bool) -> tuple[TokenModel, list[Look], Tensor]:
    """A run's model, what its attention layers are given for some test images, and these (B, C, H, W), with each patch
    where the model has it."""
    settings = found.settings
    torch.manual_seed(settings.seed)  # of an untrained model
    model = found.model(untrained)
    data = build_loader(settings, "test").data
    count = min(IMAGES, len(data))
    batch = collate([data[i * len(data) // count] for i in range(count)])
    images = model.at_home(batch)["inputs"]["image"]
    with looking(model) as looks, torch.no_grad():
        model.features(dict(image=images))
    return model, looks, dealt_out(images, model, looks[0].where)


def dealt_out(images: Tensor, model: nn.Module, where: Where) -> Tensor:
    """Images as the control of shuffled places has them, if the model has it, so that they are what its tokens hold."""
    assert where.grid is not None
    size = images.shape[2] // where.grid[0], images.shape[3] // where.grid[1]
    for shuffled in (module for module in model.modules() if type(module).__name__ == "Shuffled"):  # not imported here
        patches = F.unfold(images, size, stride=size).mT  # (B, N, pixels of one)
        before = where.positions.shape[1] - patches.shape[1]
        tokens = cast(PositionEncoding, shuffled).embed(F.pad(patches, (0, 0, before, 0)), where)
        images = F.fold(tokens[:, before:].mT, images.shape[2:], size, stride=size)
    return images


@torch.no_grad()
def accuracy_moved(found: Run, pixels: int) -> float:
    """In %, on all test images, moved down and right; what leaves an image comes in again on the other side."""
    model, right, count = found.model(), 0, 0
    for batch in build_loader(found.settings, "test"):
        images = model.at_home(batch)["inputs"]["image"].roll((pixels, pixels), (2, 3))
        labels = torch.tensor([sample["label"] for sample in batch["data_samples"]])
        right += int((model(dict(image=images)).argmax(1).cpu() == labels).sum())
        count += len(labels)
    return 100 * right / count


def brightness(images: Tensor, where: Where) -> Tensor:
    """(B, rows, columns), the mean of each patch."""
    assert where.grid is not None
    rows, columns = where.grid
    return F.adaptive_avg_pool2d(images.mean(1), (rows, columns))


def brightest(images: Tensor, where: Where) -> tuple[int, tuple[float, float]]:
    """The token of the brightest patch of the first image, and its place in the grid."""
    patches = brightness(images[:1], where)[0]
    y, x = divmod(int(patches.argmax()), patches.shape[1])
    return where.positions.shape[1] - patches.numel() + y * patches.shape[1] + x, (float(y), float(x))


def draw_maps(path: Path, title: str, look: Look, images: Tensor, blocks: Sequence[Panels]) -> None:
    """Of the first image and its brightest patch: blocks of (heads, N) values, N patches."""
    assert look.where.grid is not None
    query, _ = brightest(images, look.where)
    scene = GridCanvas(picture_of(images[0])[None], look.where.grid)
    heads = [f"head {head}" for head in range(1, blocks[0].values.shape[1] + 1)]
    patch = query - look.where.positions.shape[1] + len(scene.coordinates)
    path.parent.mkdir(parents=True, exist_ok=True)
    Painting(title, blocks, [""], heads, [patch], scene).save(path)


def maps_of(look: Look, images: Tensor) -> dict[str, np.ndarray]:
    """(1, H, N) of each term, and of attention: of the brightest patch of the first image, over all patches."""
    query, _ = brightest(images, look.where)
    terms = look.terms() | dict(attention=look.attention())
    return {name: on_grid(term[:1, :, query], look.where).flatten(2).numpy() for name, term in terms.items()}


def picture_of(image: Tensor) -> np.ndarray:
    """(C, H, W) normalised -> (H, W, 3) uint8, from its darkest to its brightest."""
    low, high = image.amin(), image.amax()
    return ((image - low) / (high - low) * 255).expand(3, -1, -1).permute(1, 2, 0).byte().numpy()
