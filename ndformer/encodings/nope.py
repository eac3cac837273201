"""NoPE: no position at all, the floor that every encoding is compared with."""

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS


@ENCODINGS.register_module()
class NoPE(PositionEncoding):
    """Attention that sees a set: permute the tokens and the outputs permute."""


if __name__ == "__main__":
    from ndformer.framework.pictures.encodings import draw_file

    draw_file(NoPE)
