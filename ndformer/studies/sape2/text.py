"""What the SaPE2 paper says of its tables, held to what they print."""

from ndformer.studies.printed import Sentence, column, experiment
from ndformer.studies.sape2.published import TABLE1, TABLE2

CIFAR = {name: column(TABLE1, name) for name in ("CIFAR10", "CIFAR100")}
SEMANTIC = ("CoPE + APE", "SaPE2", "SaPE2 + APE")
PLAIN = ("ViT", "2D RoPE")


def least(row: str, over: tuple[str, ...]) -> float:
    """Gain, on both sets."""
    return min(figures[row] - figures[other] for figures in CIFAR.values() for other in over)


EXPERIMENTS = [
    experiment(
        "sape2",
        (
            Sentence(
                "SaPE2 + APE performs best: its least lead",
                "above",
                0,
                least("SaPE2 + APE", tuple(row for row in TABLE1 if row != "SaPE2 + APE")),
            ),
            Sentence(
                "5.2 (1): encodings with meaning are above APE and 2D RoPE: the least lead of one over one",
                "above",
                0,
                min(least(row, PLAIN) for row in SEMANTIC),
            ),
            Sentence("5.2 (2): SaPE2 + APE is above CoPE + APE", "above", 0, least("SaPE2 + APE", ("CoPE + APE",))),
            Sentence("5.2 (3): APE adds to 2D RoPE", "above", 0, least("2D RoPE + APE", ("2D RoPE",))),
            Sentence("5.2 (3): APE adds to SaPE2", "above", 0, least("SaPE2 + APE", ("SaPE2",))),
            Sentence(
                "5.3 (1): with K or Q, SaPE2 is above APE in top 1: the least",
                "above",
                0,
                min(column(TABLE2, "top1")[row] - column(TABLE2, "top1")["APE"] for row in TABLE2 if row != "APE"),
            ),
            Sentence(
                "5.3 (1): with K or Q, SaPE2 is above APE in top 5: the least",
                "above",
                0,
                min(column(TABLE2, "top5")[row] - column(TABLE2, "top5")["APE"] for row in TABLE2 if row != "APE"),
            ),
            Sentence(
                "5.3 (2): K is above Q",
                "above",
                0,
                column(TABLE2, "top1")["SaPE2(K) + APE"] - column(TABLE2, "top1")["SaPE2(Q) + APE"],
            ),
        ),
    )
]
