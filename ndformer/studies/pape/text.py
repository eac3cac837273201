"""What the PaPE paper (version 1) says of its tables, held to what they print."""

from ndformer.studies.pape.encodings import BASELINES
from ndformer.studies.pape.published import INTERPOLATED, TABLE1, TABLE2, TABLE3, TABLE4, TABLE5, TABLE6, TABLE7
from ndformer.studies.printed import Sentence, column, experiment, numbers

SETS = tuple(name for name in TABLE1["PaPE"] if name != "Average")
DETECTION = ("COCO", "GEN1", "nuScenes")
LARGER = tuple(TABLE5["PaPE"])[1:]
BIASES = ("nD-ALiBi", "LookHere", "PaPE", "PaPE-RI")


def best_baseline(name: str) -> float:
    return max(figure for row, figure in column(TABLE1, name).items() if row in BASELINES)


def rank_from_below(row: str, name: str) -> int:
    """1: the lowest of all encodings."""
    figures = column(TABLE1, name)
    return sum(figure < figures[row] for figure in figures.values()) + 1


def interpolation(row: str) -> dict[str, float]:
    """What it changes, by size."""
    without, with_ = numbers(TABLE5, row), numbers(TABLE6, row)
    return {size: with_[size] - without[size] for size in LARGER}


def lead(size: str, table: dict[str, dict[str, str]] = TABLE5) -> float:
    figures = column(table, size)
    return figures["PaPE"] - max(figures[row] for row in BASELINES)


PAPE, RI = numbers(TABLE1, "PaPE"), numbers(TABLE1, "PaPE-RI")
GAINS = {name: PAPE[name] - best_baseline(name) for name in SETS}
TOP = [
    row
    for name in SETS
    for row in ("PaPE", "PaPE-RI")
    if numbers(TABLE1, row)[name] == max(column(TABLE1, name).values())
]
SINCOS = [rank_from_below("nD-sincos", name) for name in SETS]
MODELNET, NUSCENES = column(TABLE1, "ModelNet40"), column(TABLE1, "nuScenes")
INVARIANT = ("nD-ALiBi", "PaPE-RI")  # to rotation
VARIANT = tuple(row for row in TABLE1 if row not in (*INVARIANT, "LookHere"))  # of those on point clouds
BEHIND_ON_SCANNET = len(column(TABLE1, "ScanNet")) - rank_from_below("nD-sincos", "ScanNet")
LARGE = numbers(TABLE5, "PaPE")
WHOLE = float(TABLE2["PaPE"])
ABLATED = [float(figure) for row, figure in TABLE2.items() if row != "PaPE"]
MILLISECONDS = {row: float(ms) for row, (ms, _) in TABLE4.items()}
SLOWER = [ms - 1.5 for row, ms in MILLISECONDS.items() if row.startswith("PaPE")]
EXPERIMENTS = [
    experiment(
        "pape",
        (
            Sentence("PaPE has the highest score on 6 of 8 data sets", "is", 6, TOP.count("PaPE")),
            Sentence("PaPE-RI leads on 1", "is", 1, TOP.count("PaPE-RI")),
            Sentence("no baseline is alone on top on 7", "is", 7, len(TOP)),
            Sentence(
                "on average PaPE is 1 point above RoPE", "is", 1, PAPE["Average"] - numbers(TABLE1, "RoPE")["Average"]
            ),
            Sentence(
                "ScanNet is the only set on which PaPE trails the baselines",
                "is",
                1,
                sum(g < 0 for g in GAINS.values()),
            ),
            Sentence("PaPE's largest gain is on UCF101, 49.5 over 43.9", "is", 5.6, GAINS["UCF101"]),
            Sentence(
                "no other set has as large a gain of PaPE as UCF101: the next",
                "at most",
                5.5,
                sorted(GAINS.values())[-2],
            ),
            Sentence("on GEN1 it gains 1.2 over RoPE", "is", 1.2, GAINS["GEN1"]),
            Sentence("on ImageNet-1K it is 0.1 above LookHere", "is", 0.1, PAPE["ImageNet-1K"] - 80.5),
            Sentence("on COCO it is 0.1 above RoPE", "is", 0.1, PAPE["COCO"] - 38.8),
            Sentence("on DvsGesture it ties with nD-sincos", "is", 0, PAPE["DvsGesture"] - 93.4),
            *(
                Sentence(
                    f"RoPE-Mixed does notably poorly on {name}: rank from below",
                    "at most",
                    2,
                    rank_from_below("RoPE-Mixed", name),
                )
                for name in ("UCF101", "DvsGesture", "GEN1", "nuScenes")
            ),
            Sentence("on nuScenes PaPE-RI is ahead of PaPE by 0.2", "is", 0.2, NUSCENES["PaPE-RI"] - NUSCENES["PaPE"]),
            Sentence("where nD-ALiBi follows 0.2 behind", "is", 0.2, NUSCENES["PaPE"] - NUSCENES["nD-ALiBi"]),
            Sentence("PaPE-RI is markedly lower than PaPE on average", "at least", 1, PAPE["Average"] - RI["Average"]),
            Sentence("nD-sincos is lowest on 4 of 8 sets", "is", 4, SINCOS.count(1)),
            Sentence("nD-sincos is second lowest on 2", "is", 2, SINCOS.count(2)),
            Sentence(
                "nD-sincos lags in detection: highest rank from below on three sets",
                "at most",
                3,
                max(rank_from_below("nD-sincos", name) for name in DETECTION),
            ),
            Sentence(
                "on ModelNet40 all translation invariant encodings are at least 0.8 above nD-sincos",
                "at least",
                0.8,
                min(figure for row, figure in MODELNET.items() if row != "nD-sincos") - MODELNET["nD-sincos"],
            ),
            Sentence(
                "on ScanNet nD-sincos is 0.9 above RoPE",
                "is",
                0.9,
                column(TABLE1, "ScanNet")["nD-sincos"] - column(TABLE1, "ScanNet")["RoPE"],
            ),
            Sentence("on ScanNet nD-sincos is above all others: places behind the first", "is", 0, BEHIND_ON_SCANNET),
            Sentence(
                "on ModelNet40 all are similar: they span",
                "at most",
                1.5,
                max(MODELNET.values()) - min(MODELNET.values()),
            ),
            *(
                Sentence(
                    f"on {name} no encoding invariant to rotation is above one that is not: pairs that are otherwise",
                    "is",
                    0,
                    sum(
                        column(TABLE1, name)[one] > column(TABLE1, name)[other]
                        for one in INVARIANT
                        for other in VARIANT
                    ),
                )
                for name in ("ScanNet", "ModelNet40")
            ),
            Sentence(
                "nor is one above all of those on ModelNet40: its lead",
                "at most",
                0,
                max(MODELNET[row] for row in INVARIANT) - max(MODELNET[row] for row in VARIANT),
            ),
            Sentence("all ablations cost accuracy: the least", "at least", 0.1, WHOLE - max(ABLATED)),
            Sentence("each ablated principle costs around 2 points: the least", "is", 2, WHOLE - 77.2),
            Sentence(
                "each ablated principle costs around 2 points: the most",
                "at most",
                2.5,
                WHOLE - min(ABLATED),
            ),
            Sentence("Wp adds 0.3", "is", 0.3, WHOLE - float(TABLE2["without Wp"])),
            Sentence("it takes m=8: what fewer parabolas cost", "at least", 1, WHOLE - float(TABLE3["m=4"])),
            Sentence(
                "beyond m=8 returns diminish: what is left to gain",
                "at most",
                0.2,
                max(map(float, TABLE3.values())) - float(TABLE3["m=8"]),
            ),
            Sentence("PaPE adds 0.2 ms at least", "at least", 0.2, min(SLOWER)),
            Sentence("PaPE adds 0.4 ms at most", "at most", 0.4, max(SLOWER)),
            Sentence("the 0.4 ms that PaPE adds are 27 %", "is", 26.7, 100 * max(SLOWER) / 1.5),
            Sentence("the 0.2 ms are 13 %", "is", 13.3, 100 * min(SLOWER) / 1.5),
            Sentence("with PaPE parameters grow by 0.6 % at least", "is", 0.6, 100 * 0.5 / 86.4),
            Sentence("with PaPE parameters grow by 15.7 % of 86.4 M", "is", 15.7, 100 * 13.6 / 86.4),
            Sentence("without interpolation PaPE leads by up to 10.5", "is", 10.5, max(map(lead, LARGER))),
            Sentence(
                "PaPE gains 1 % at all sizes up to 512: the least gain",
                "at least",
                1,
                min(LARGE[size] - LARGE["224"] for size in LARGER if int(size) <= 512),
            ),
            Sentence(
                "PaPE falls below its accuracy at 224 only after 640: at 640 it is above by",
                "at least",
                0,
                LARGE["640"] - LARGE["224"],
            ),
            Sentence(
                "PaPE-RI does not extrapolate so: least lead of PaPE at a larger size",
                "above",
                0,
                min(LARGE[size] - float(TABLE5["PaPE-RI"][size]) for size in LARGER),
            ),
            Sentence(
                "direction makes for extrapolation: least lead of LookHere over nD-ALiBi at a larger size",
                "above",
                0,
                min(float(TABLE5["LookHere"][size]) - float(TABLE5["nD-ALiBi"][size]) for size in LARGER),
            ),
            Sentence(
                "interpolation helps nD-sincos at every size: the least",
                "at least",
                0.1,
                min(interpolation("nD-sincos").values()),
            ),
            Sentence(
                "RoPE and RoPE-Mixed gain by interpolation from 640 on: the least",
                "at least",
                0.1,
                min(interpolation(row)[size] for row in INTERPOLATED[1:] for size in LARGER if int(size) >= 640),
            ),
            Sentence(
                "RoPE and RoPE-Mixed lose by interpolation below 640: the largest change",
                "at most",
                -0.1,
                max(interpolation(row)[size] for row in INTERPOLATED[1:] for size in LARGER if int(size) < 640),
            ),
            Sentence(
                "interpolation harms all four attention biases: the largest change",
                "at most",
                -0.1,
                max(change for row in BIASES for change in interpolation(row).values()),
            ),
            Sentence(
                "in the best way of each PaPE leads at every size: the least",
                "at least",
                0.1,
                min(lead(size, TABLE7) for size in LARGER),
            ),
            Sentence(
                "LookHere comes next at every size: places behind that",
                "is",
                0,
                sum(
                    column(TABLE7, size)["LookHere"]
                    < max(figure for row, figure in column(TABLE7, size).items() if row not in ("PaPE", "LookHere"))
                    for size in LARGER
                ),
            ),
        ),
    )
]
