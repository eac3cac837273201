"""ViTARC's encodings on tasks of ARC, each learnt from pairs that a generator draws: solve rates in %."""

from statistics import fmean

import torch

from ndformer.lab.experiment import Cell, Experiment, Scale, Values
from ndformer.lab.verdicts import above, ahead, below, combine
from ndformer.studies.small import fit
from ndformer.studies.vitarc.painter import (
    BATCH,
    LR,
    Painter,
    Places,
    batches,
    draw_samples,
    shuffled_answers,
    solve_rate,
)

STEPS, TRAIN, TEST = 600, 2000, 300
PAPE = "PaPE(m=8, init_radius='spread', position_scale='auto')"
OPE_MIXED = "PEMixer(second=dict(type='ObjectSincos'))"
ALL_THREE = "ViTARC: all three"
ROWS: dict[str, tuple[str, Places]] = {  # the encoding as on a command line, and the places it is given
    "Vanilla": ("Sincos", "raster"),
    "NoPE": ("NoPE", "grid"),
    "Sincos": ("Sincos", "grid"),
    "2D-RPE": ("DirectionalRPE", "grid"),
    "Sincos, 2D-RPE": ("Sincos, DirectionalRPE", "grid"),
    "OPE": ("ObjectSincos", "grid"),
    "PEMixer": ("PEMixer", "grid"),
    "OPE in PEMixer": (OPE_MIXED, "grid"),
    ALL_THREE: (f"{OPE_MIXED}, DirectionalRPE", "grid"),
    "PaPE": (PAPE, "grid"),
    "Sincos, PaPE": (f"Sincos, {PAPE}", "grid"),
    "PaPE, objects as an axis": (PAPE, "objects"),
    "Sincos, places shuffled": ("Sincos", "shuffled"),  # a control: what is left where places say nothing
    "Sincos, labels at random": ("Sincos", "grid"),  # and one: what is learnt from answers of other pairs
}
LABELS = [*ROWS][-1]
CONTENT, SPACE = ("swap",), ("mirror", "gravity", "joined", "enclosed")
COLOURED = ("thrown out", "couples")  # objects of several colours
OBJECTS = ("parts", "sizes", "loops", "larger", "boxes", *COLOURED)
TASKS = (*CONTENT, *SPACE, *OBJECTS)
MEANS = {"mean": TASKS, "space": SPACE, "objects": OBJECTS, "coloured": COLOURED}
HEADINGS = {"mean": "mean", "space": "… of space", "objects": "… of objects", "coloured": "… in several colours"}


def measure(cell: Cell, steps: int = STEPS, train: int = TRAIN, test: int = TEST) -> Values:
    """A model of its own for each task."""
    encoding, places = ROWS[cell.row]
    values: Values = {}
    for task in TASKS:
        torch.manual_seed(cell.seed)
        samples = draw_samples(task, "train", train, cell.seed)
        painter = Painter(encoding, samples, places)
        learnt = shuffled_answers(samples, cell.seed) if cell.row == LABELS else samples
        fit(painter, batches(learnt, cell.seed), steps, LR)
        values[task] = solve_rate(painter, draw_samples(task, "test", test, cell.seed, but=samples))
    return values | {name: fmean(values[task] for task in tasks) for name, tasks in MEANS.items()}


CLAIMS = (
    ahead("2D-RPE adds to a 2-D APE (after eq. 12)", "Sincos, 2D-RPE", "Sincos", "mean"),
    ahead("an APE adds to 2D-RPE, where it harms in Swin (after eq. 12)", "Sincos, 2D-RPE", "2D-RPE", "mean"),
    ahead("2D-RPE adds to a 2-D APE in tasks of space too (there)", "Sincos, 2D-RPE", "Sincos", "space"),
    ahead("objects of several colours: OPE is ahead of the 2-D APE (eq. 13)", "OPE", "Sincos", "coloured"),
    ahead("tasks about objects: OPE is ahead of the 2-D APE (eq. 13)", "OPE", "Sincos", "objects"),
    ahead("PEMixer lets OPE do better (end of the excerpt)", "OPE in PEMixer", "OPE", "mean"),
    ahead("without use of objects, at most 2 points behind the APE (there)", "OPE in PEMixer", "Sincos", "space", -2),
    ahead("all three together are ahead of the vanilla model (of the whole paper)", ALL_THREE, "Vanilla", "mean"),
    combine(
        "control: without places only the task of content is solved",
        [below("", ("NoPE", "Sincos, places shuffled"), ("space", "objects"), 10), above("", "NoPE", "swap", 90)],
    ),
    below("control: from answers of other pairs nothing is solved (below 10 %)", LABELS, ("mean", *CONTENT), 10),
    ahead("ours: PaPE alone is ahead of 2D-RPE alone", "PaPE", "2D-RPE", "mean"),
    ahead("ours: beside Sincos, PaPE is ahead of 2D-RPE", "Sincos, PaPE", "Sincos, 2D-RPE", "mean"),
    ahead("ours: the object as an axis helps PaPE on objects", "PaPE, objects as an axis", "PaPE", "objects"),
)
ABOUT = f"""
Twelve tasks of ARC as rules, drawn anew on grids of up to 8 x 8 cells: {TRAIN} pairs to learn from (a rule may draw one
twice), up to {TEST} others to test, a model for each task. It reads the canvas (three layers, 48 channels, 4 heads) and
answers all cells at once, after {STEPS} steps of {BATCH} pairs; the paper's has a decoder too, which writes one cell
after another: that is not built here. *Vanilla* numbers cells in the order of reading, and reads the same borders and
padding as the others. Tasks of space are {", ".join(SPACE)}, of objects {", ".join(OBJECTS)}, of these in several
colours {" and ".join(COLOURED)}, and of content {", ".join(CONTENT)}: their rules are in
[docs/get-started/arc.md](../get-started/arc.md).
2D-RPE is eq. 12 with distances as penalties. OPE's objects are boxes around coloured cells that touch; in *boxes*
that is the answer. {STEPS} steps are few: *mirror* and *thrown out* are learnt with one seed and not with another,
and what is compared is how soon. The excerpt has no figures; the paper's 400 tasks would need a GPU and
generators, of which 25 are here.
"""
EXPERIMENTS = [
    Experiment(
        "vitarc:tasks",
        "Solve rates on tasks of ARC, %",
        rows=tuple(ROWS),
        columns=HEADINGS | {task: task for task in TASKS},
        measure=measure,
        scales={"small": Scale(3, minutes=265)},
        claims=CLAIMS,
        shows=("Figure 1", "Figure 6", "equations 11 to 13"),
        about=" ".join(ABOUT.split()),
    )
]
