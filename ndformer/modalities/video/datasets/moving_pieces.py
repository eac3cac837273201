"""Generated films of lines of small pieces that rest or move."""

import numpy as np

from ndformer.framework.data.arranged import GRATINGS, LINES, STEPS, Arranged, grating, line
from ndformer.framework.data.dataset import Sample
from ndformer.framework.registry import DATASETS

SIDE = 4  # cells along each side of a frame
PIECE = 8  # pixels along a side, as many as of a token
NOISE, BRIGHTNESS, CONTRAST = 20.0, 60.0, 60.0


@DATASETS.register_module()
class MovingPieces(Arranged):
    """Films of 3 frames of 32 x 32 pixels. Kind: the grating on the pieces. Arrangement: the line that they form.

    A line is a row, a column or a diagonal; rows and columns rest or move by one piece in each frame, around the
    borders. So the patches of a film, without their positions, are the same for all arrangements.
    """

    kinds = GRATINGS
    arrangements = LINES

    def generate(self, arrangement: int, kind: int, rng: np.random.Generator) -> Sample:
        cells = line(arrangement, SIDE, rng)
        film = rng.normal(128, NOISE, (STEPS, SIDE * PIECE, SIDE * PIECE))
        rows, columns = np.mgrid[:PIECE, :PIECE]
        for frame, places in zip(film, cells * PIECE):
            for row, column in places:
                piece = BRIGHTNESS + CONTRAST * grating(kind, rows, columns, rng.uniform(0, 2 * np.pi))
                frame[row : row + PIECE, column : column + PIECE] += piece
        return dict(video=np.repeat(film.clip(0, 255).astype(np.uint8)[..., None], 3, axis=-1))
