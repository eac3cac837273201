"""NoPE: no position encoding, the baseline of every comparison."""

from ndformer.framework.encoding import PositionEncoding
from ndformer.framework.registry import ENCODINGS


@ENCODINGS.register_module()
class NoPE(PositionEncoding):
    """No position encoding (Kazemnejad et al. 2023): permuting the tokens permutes the outputs, and nothing else.

    Paper: arXiv:2305.19466.
    """

    circular_axes = True
