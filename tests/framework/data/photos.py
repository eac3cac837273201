"""A small image folder, and its shards."""

import numpy as np
from mmengine.config import Config
from PIL import Image

from ndformer.cli.shards import Packer
from ndformer.framework.data.dataset import create

SPLITS = ("train", "val", "test")


def photos(home):
    rng = np.random.default_rng(0)
    for split, count in (("train", 12), ("test", 4)):
        for name in ("cat", "dog"):
            (home / split / name).mkdir(parents=True)
            for i in range(count):
                pixels = rng.integers(0, 256, (8, 9, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(home / split / name / f"{i}.{'png' if i % 2 else 'jpg'}")


def pack(home, out, kind="ImageFolder", shards=4, options=None, jobs=2, progress=lambda done, total: None):
    options = options or {}
    sets = {split: create(dict(type=kind, data_root=home, split=split, **options), 0) for split in SPLITS}
    Packer(sets, dict.fromkeys(SPLITS, options), out).pack(shards, jobs, progress)
    return sets


def opened(root, split="train", kind="ImageFolder", **options):
    return create(dict(type=kind, data_root=root, split=split, **options), 0)


def pixels(data):
    return [np.asarray(data.sample(0, i)["image"]).tolist() for i in range(len(data))]


def config(root, workers=0, skip_bad=False):
    transforms = [dict(type="Resize", size=8), dict(type="PackImage")]

    def loader(split):
        dataset = dict(type="ImageFolder", data_root=str(root), split=split, transforms=transforms)
        return dict(batch_size=4, num_workers=workers, skip_bad=skip_bad, dataset=dataset)

    return Config(dict(seed=0, data_root=None) | {f"{split}_dataloader": loader(split) for split in SPLITS})
