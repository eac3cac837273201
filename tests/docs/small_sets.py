"""The designed comparison on small sets: the runs in docs/results/data/digits and others, by set."""

from tests.docs.reported import SPREAD_START, Reported

MAIN = ("NoPE", "Sincos", "AxialRoPE", "RoPEMixed", "ALiBi", SPREAD_START, "PaPECompact")
# by folder of results, with its learned table of positions
TABLES = {
    "digits": "LearnableAbsolute(grid=7)",
    "hand_signs": "LearnableAbsolute(grid=8)",
    "actions": "LearnableAbsolute(grid=[5,4,4])",
}
SETS = {folder: Reported(folder, (*MAIN, table), planned=8, others=5) for folder, table in TABLES.items()}
LARGER = {folder: runs for folder, runs in SETS.items() if (runs.folder / "extrapolate.json").exists()}
FINISHED = {folder: runs for folder, runs in SETS.items() if len(runs.ranked()) == len(runs.main)}  # three seeds each
