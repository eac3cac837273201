"""A layer of each encoding on the device that is not here, forward and backward, as JSON by name."""

from typing import Any

import torch

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from tests.elsewhere import device as elsewhere
from tests.elsewhere.steps import counted
from tests.encodings.references.gta import random_cameras
from tests.framework.helpers import CAMERAS


def seen_in(name: str, device: torch.device, **options: Any) -> dict[str, Any]:
    """Of a grid of 3 x 4 patches behind a class token; and of free positions with padding, where it takes them."""
    encoding: Any = build_encoding(dict(type=name, **options), dim=24, heads=2, position_dims=2, depth=1)
    attention = Attention(24, 2, encoding.layer(0, 1)).to(device)
    encoding = encoding.to(device)
    patches = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).to(device)
    there = torch.arange(13).to(device)[None]
    positions, placed = torch.cat([patches[:1] * 0, patches])[None], there > 0
    cameras = random_cameras(1, 13).float().to(device) if name in CAMERAS else None
    wheres = [Where(positions, placed=placed, grid=(3, 4), cameras=cameras)]
    if not encoding.needs_grid:
        masks: dict[str, Any] = dict(placed=placed.expand(2, -1), valid=there.expand(2, -1) < 9)
        wheres.append(Where(positions.expand(2, -1, -1), **masks, cameras=cameras))
    x = torch.randn(2, 13, 24).to(device)

    def step() -> None:
        for where in wheres:
            state = encoding.prepare(where)
            tokens = encoding.block_update(encoding.embed(x, state), state, 0)
            attention(tokens, where, state).square().sum().backward()

    step()  # constants are sent once
    with elsewhere.watched() as seen:
        step()
    return counted(seen)


def main() -> None:
    device = elsewhere.register()
    build_encoding(dict(type="PaPE"), dim=24, heads=2, position_dims=2, depth=1)  # finds all
    elsewhere.told({name: seen_in(name, device, **CAMERAS.get(name, {})) for name in sorted(ENCODINGS.module_dict)})


if __name__ == "__main__":
    main()
