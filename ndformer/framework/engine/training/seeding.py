"""Seeds of a run: of the whole, and of each step."""

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed Python, NumPy and torch; transforms of samples have generators of their own."""
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 (for code of users)
    torch.manual_seed(seed)


def seed_step(seed: int, iteration: int) -> None:
    """Seed torch from the config's seed and the step's number, so that a resumed run draws the same numbers."""
    state = np.random.SeedSequence((seed, iteration)).generate_state(1, np.uint64)
    torch.manual_seed(int(state[0] >> np.uint64(1)))
