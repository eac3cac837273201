"""A layer of each encoding on the device that is not here, forward and backward, as JSON by name."""

from typing import Any

import torch

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.registry import ENCODINGS
from ndformer.framework.tokens import Where
from tests.elsewhere import device as elsewhere
from tests.elsewhere.steps import counted


def seen_in(name: str, device: torch.device) -> dict[str, Any]:
    """Of a grid of 3 x 4 patches behind a class token; and of free positions with padding, where it takes them."""
    encoding: Any = build_encoding(dict(type=name), dim=24, heads=2, position_dims=2, depth=1)
    attention = Attention(24, 2, encoding.layer(0, 1)).to(device)
    encoding = encoding.to(device)
    patches = torch.cartesian_prod(torch.arange(3.0), torch.arange(4.0)).to(device)
    there = torch.arange(13).to(device)[None]
    positions, placed = torch.cat([patches[:1] * 0, patches])[None], there > 0
    wheres = [Where(positions, placed=placed, grid=(3, 4))]
    if not encoding.needs_grid:
        wheres.append(Where(positions.expand(2, -1, -1), placed=placed.expand(2, -1), valid=there.expand(2, -1) < 9))
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
    elsewhere.told({name: seen_in(name, device) for name in sorted(ENCODINGS.module_dict)})


if __name__ == "__main__":
    main()
