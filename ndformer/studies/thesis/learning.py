"""Figure 3 of the thesis: how much data each position embedding needs to learn where squares are to each other."""

from pathlib import Path

from ndformer.lab.experiment import Cell, Experiment, Results, Scale, Values
from ndformer.lab.figures import learning_curves
from ndformer.lab.interval import Summary
from ndformer.lab.verdicts import ahead, alike, below
from ndformer.studies.small import Control, accuracy, r_squared
from ndformer.studies.thesis.red_green import BATCH, Task, to_test, train_reader

ROWS: dict[str, tuple[str, Control]] = {  # name -> encoding, control
    "Absolute": ("LearnableAbsolute(grid=8)", ""),
    "Fixed sinusoidal": ("Sincos", ""),
    "Learnable Fourier": ("LearnableFourier", ""),
    "None": ("NoPE", ""),
    "Fixed sinusoidal, labels at random": ("Sincos", "labels"),
    "Fixed sinusoidal, places shuffled": ("Sincos", "places"),
}
CONTROLS = [*ROWS][-3:]
AMOUNTS, STEPS = (100, 400, 1600, 5000), 500
TASKS: dict[Task, str] = {"direction": "direction, accuracy %", "distance": "distance, R²"}


def measure(cell: Cell) -> Values:
    encoding, control = ROWS[cell.row]
    values: Values = {}
    for task in TASKS:
        for amount in AMOUNTS:
            epochs = STEPS // (amount // BATCH)  # as many steps for all, so that only the data are fewer
            reader = train_reader(task, encoding, cell.seed, control=control, count=amount, epochs=epochs)
            score = r_squared if task == "distance" else accuracy
            values[f"{task}@{amount}"] = score(reader, to_test(task, cell.seed, control))
    return values


def draw(results: Results, path: Path) -> None:
    panels = {
        heading: {
            row: {amount: Summary.from_values(results.column(row, f"{task}@{amount}")) for amount in AMOUNTS}
            for row in results.values
        }
        for task, heading in TASKS.items()
    }
    learning_curves(path, "Red-green images: learning curves", "images to learn from", panels)


MIDDLE = {task: [f"{task}@{amount}" for amount in AMOUNTS[1:3]] for task in TASKS}
DIRECTIONS = [f"direction@{amount}" for amount in AMOUNTS]
PAIR, LAST = ("Fixed sinusoidal", "Absolute"), DIRECTIONS[-1]
EXPERIMENTS = [
    Experiment(
        "thesis:figure3",
        "Learning curves of relative direction and relative distance",
        rows=tuple(ROWS),
        columns={f"{task}@{n}": f"{task}, {n}" for task in TASKS for n in AMOUNTS},
        measure=measure,
        scales={"small": Scale(5, minutes=97)},
        claims=(
            *(  # with the smallest amount no encoding may learn anything yet
                ahead(f"fixed sines are ahead of {row} ones at {task}", "Fixed sinusoidal", row, MIDDLE[task])
                for task in TASKS
                for row in ("Absolute", "Learnable Fourier")
            ),
            alike(f"with {AMOUNTS[-1]} images Absolute catches up on direction (within 2 points)", *PAIR, LAST, 2),
            below("control: without positions or labels all is guessed (below 60 %)", CONTROLS, DIRECTIONS, 60),
        ),
        shows=("Figure 3",),
        about=f"As in Table 1, but {STEPS} steps whatever the number of images; accuracy in %, R² of distance. The "
        "thesis has curves without numbers, and names neither the numbers of images nor the steps.",
        draw=draw,
    )
]
