"""Generated films of small pieces that move in one of eight directions."""

import numpy as np

from ndformer.framework.data.arranged import CELLS, GRATINGS, HEADINGS, STEPS, Arranged, grating, paths
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS

PIECE = 8  # pixels along a side, as many as of a token
NOISE, CONTRAST = 20.0, 100.0


@DATASETS.register_module()
class MovingPieces(Arranged):
    """Films of 3 frames of 40 x 40 pixels. Kind: the grating on the pieces. Arrangement: the direction of motion.

    The pieces move by their size in each frame, around the borders. So the patches of a film, without their positions,
    are the same for all directions.
    """

    kinds = GRATINGS
    arrangements = HEADINGS

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        cells = paths(arrangement, rng)
        film = rng.normal(128, NOISE, (STEPS, CELLS * PIECE, CELLS * PIECE))
        rows, columns = np.mgrid[:PIECE, :PIECE]
        for frame, places in zip(film, cells * PIECE):
            for row, column in places:
                piece = CONTRAST * grating(kind, rows, columns, rng.uniform(0, 2 * np.pi))
                frame[row : row + PIECE, column : column + PIECE] += piece
        return dict(video=np.repeat(film.clip(0, 255).astype(np.uint8)[..., None], 3, axis=-1))
