"""Stand-in of GEN1: drives through a street, recorded by a simulated event camera."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from ndformer.framework.answers.boxes import Boxes
from ndformer.framework.data.stand_ins import stand_in
from ndformer.framework.evaluation.simple import KINDS, mean_detections
from ndformer.modalities.events.datasets.gen1.boxes import WARM_UP
from ndformer.modalities.events.datasets.gen1.dataset import GEN1
from ndformer.modalities.events.datasets.gen1.metric import Gen1Metric
from ndformer.modalities.events.formats.evt_dat import write_dat
from ndformer.modalities.events.stand_ins.camera import film_to_events
from ndformer.modalities.events.stand_ins.traffic import MIN_VISIBLE, StreetObject, film
from ndformer.modalities.events.transforms.boxes import corners

FRAME, LENGTH = 25_000, 1_500_000  # microseconds between frames of the film, and of a recording
RATES = (1, 2, 4, 4)  # labeled moments per second, constant in a recording
RECORDINGS = dict(train=260, val=30, test=50)
BOX = [("ts", "<u8"), ("x", "<f4"), ("y", "<f4"), ("w", "<f4"), ("h", "<f4"), ("class_id", "u1")]
BOX += [("confidence", "<f4"), ("track_id", "<u4")]


def boxes(times: np.ndarray, objects: list[StreetObject], visible: np.ndarray, rate: int) -> np.ndarray:
    """Return the rows of a _bbox.npy: the visible objects at each labeled moment. Boxes may exceed the sensor."""
    rows = [
        (int(times[i]), *item.box(i)[0].tolist(), item.label, 1.0, number)
        for i in np.flatnonzero((times > WARM_UP) & (times % (1_000_000 // rate) == 0)).tolist()
        for number, item in enumerate(objects)
        if visible[i, number] >= MIN_VISIBLE
    ]
    return np.array(rows, BOX)


def baselines(train: GEN1, test: GEN1) -> Iterable[tuple[str, float]]:
    """Yield mAP50 in GEN1's protocol of a detector that predicts the mean boxes of training at every moment."""
    train_boxes = [(corners(record.boxes), record.labels) for record in train.records]
    for count, name in KINDS:
        means, metric = mean_detections(train_boxes, count), Gen1Metric()
        for record in test.records:
            truth = dict(boxes=corners(record.boxes), labels=record.labels)
            sample = dict(image_id=f"{record.recording}[{record.time}]", truth=truth)
            metric.process({}, [Boxes(sample=sample, **means)])
        yield name, metric.compute_metrics(metric.results)["mAP50"]


@stand_in(dict(type="GEN1"), baselines)
def gen1(folder: Path, seed: int = 0, recordings: dict[str, int] = RECORDINGS) -> None:
    """Write 260 + 30 + 50 recordings of 1.5 seconds, labeled one to four times a second after the warm-up."""
    times = np.arange(0, LENGTH + 1, FRAME)
    for day, (split, count) in enumerate(recordings.items(), 1):
        (folder / split).mkdir()
        for number in range(count):
            rng = np.random.default_rng((seed, day, number))
            frames, objects, visible = film(times, rng)
            events = film_to_events(frames, times, rng, threshold=0.4, noise=0.08)
            name = f"17-04-{day:02}_{12 + number // 60:02}-{number % 60:02}-00_0_{LENGTH}"
            write_dat(folder / split / f"{name}_td.dat", events)
            rate = int(rng.choice(RATES))
            np.save(folder / split / f"{name}_bbox.npy", boxes(times, objects, visible, rate))
