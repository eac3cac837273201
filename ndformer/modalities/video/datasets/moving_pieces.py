"""Generated films of a small piece that moves in one of eight directions."""

import numpy as np

from ndformer.framework.data.arranged import DIRECTIONS, GRATINGS, HEADINGS, Arranged, grating
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS

FRAMES, SIDE, PIECE = 6, 24, 8  # frames; pixels of the film and of the piece, which is a token's
NOISE, CONTRAST = 40.0, 60.0


@DATASETS.register_module()
class MovingPieces(Arranged):
    """Films of 6 frames of 24 x 24 pixels. Kind: the grating on the piece. Arrangement: the direction of motion.

    The piece moves by its size in each frame, around the borders, and begins anywhere. So every frame is equally likely
    in all directions, and the frames in any order do not tell a direction from any other.
    """

    kinds = GRATINGS
    arrangements = HEADINGS

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        cells, steps = SIDE // PIECE, np.arange(FRAMES)[:, None]
        cell = (rng.integers(cells, size=2) + steps * DIRECTIONS[arrangement]) % cells  # (T, 2)
        film = rng.normal(128, NOISE, (FRAMES, SIDE, SIDE))
        rows, columns = np.mgrid[:PIECE, :PIECE]
        for frame, (row, column) in zip(film, cell * PIECE):
            piece = CONTRAST * grating(kind, rows, columns, rng.uniform(0, 2 * np.pi))
            frame[row : row + PIECE, column : column + PIECE] += piece
        return dict(video=np.repeat(film.clip(0, 255).astype(np.uint8)[..., None], 3, axis=-1))
