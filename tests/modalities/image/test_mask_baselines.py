"""A segmenter that never looks: its mIoU, from pixels counted by hand."""

import numpy as np
import pytest
from PIL import Image

from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.stand_ins.ade20k import baselines


def test_it_predicts_the_most_common_class_everywhere_or_at_each_place(tmp_path):
    (tmp_path / "classes.txt").write_text("sky\nground\n")
    for split, line in (("train", 8), ("test", 16)):  # sky is above, of 32 rows
        mask = np.zeros((32, 32), np.uint8)
        mask[line:] = 1
        mask[0, :4] = 255
        for kind, image in (("images", np.zeros((32, 32, 3), np.uint8)), ("masks", mask)):
            (tmp_path / kind / split).mkdir(parents=True)
            for i in range(3):
                Image.fromarray(image).save(tmp_path / kind / split / f"{i}.png")
    train = DATASETS.create(dict(type="MaskFolder", data_root=tmp_path, split="train", holdout=0.0))
    test = DATASETS.create(dict(type="MaskFolder", data_root=tmp_path, split="test"))
    found = dict(baselines(train, test))
    known = 32 * 32 - 4
    assert found["most common class, mIoU"] == pytest.approx((0 + 512 / known) / 2)
    sky, ground = (256 - 4) / (512 - 4), 512 / 768  # said above row 8, there above row 16
    assert found["most common class of a place, mIoU"] == pytest.approx((sky + ground) / 2)
