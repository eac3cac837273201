"""Stand-in of DvsGesture: animated gestures (acting.py), recorded by a simulated camera."""

from pathlib import Path

import numpy as np

from ndformer.framework.data.stand_ins import stand_in
from ndformer.modalities.events.datasets.gesture import CLASSES
from ndformer.modalities.events.formats.aedat import write_aedat3
from ndformer.modalities.events.formats.stream import Events, concatenate
from ndformer.modalities.events.stand_ins.acting import film
from ndformer.modalities.events.stand_ins.baselines import baselines
from ndformer.modalities.events.stand_ins.camera import film_to_events

RATE, LENGTH, PAUSE = 60, 1_000_000, 150_000  # frames per second; microseconds of a gesture and of a pause
TRAIN, TEST = range(1, 24), range(24, 30)  # users, as in the real set
LIGHTS = ("fluorescent", "lab", "led", "natural")


def gesture(label: int, start: int, rng: np.random.Generator) -> Events:
    times = start + np.arange(0, LENGTH, 1_000_000 // RATE)
    return film_to_events(film(label, times, rng), times, rng, threshold=0.4, noise=0.3)


@stand_in(dict(type="DvsGesture"), baselines)
def dvsgesture(folder: Path, seed: int = 0, lights: tuple[str, ...] = LIGHTS) -> None:
    """Write 116 recordings of eleven gestures, each a little over a second long, by the 29 users."""
    home = folder / "DvsGesture"
    home.mkdir()
    names: dict[str, list[str]] = dict(train=[], test=[])
    for split, users in dict(train=TRAIN, test=TEST).items():
        for user in users:
            for number, light in enumerate(lights):
                rng = np.random.default_rng((seed, user, number))
                name, start = f"user{user:02d}_{light}", int(rng.integers(1_000_000, 9_000_000))
                parts, rows = [], ["class,startTime_usec,endTime_usec"]
                for label in range(len(CLASSES)):
                    parts.append(gesture(label, start, rng))
                    rows.append(f"{label + 1},{start},{start + LENGTH}")
                    start += LENGTH + PAUSE
                write_aedat3(home / f"{name}.aedat", concatenate(parts))
                (home / f"{name}_labels.csv").write_text("\n".join(rows) + "\n")
                names[split].append(f"{name}.aedat")
    for split, listed in names.items():
        (home / f"trials_to_{split}.txt").write_text("\n".join(listed) + "\n")
    rows = [f"{name.replace(' ', '_')},{label}" for label, name in enumerate(CLASSES, 1)]
    (home / "gesture_mapping.csv").write_text("\n".join(["action,label", *rows]) + "\n")
