"""Flowers-102, with the official split.

data_root/[flowers-102/]   jpg/image_00001.jpg ..., imagelabels.mat (labels from 1 to 102), setid.mat (the split)
"""

from pathlib import Path
from typing import Any

import numpy as np

from ndformer.framework.data.dataset import SPLITS
from ndformer.framework.data.folders import missing
from ndformer.framework.errors import DataError, check_labels
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.datasets.folder import LabeledImages
from ndformer.modalities.image.formats.matlab import read_mat

NAMES = """pink primrose, hard-leaved pocket orchid, canterbury bells, sweet pea, english marigold, tiger lily, moon
orchid, bird of paradise, monkshood, globe thistle, snapdragon, colt's foot, king protea, spear thistle, yellow iris,
globe-flower, purple coneflower, peruvian lily, balloon flower, giant white arum lily, fire lily, pincushion flower,
fritillary, red ginger, grape hyacinth, corn poppy, prince of wales feathers, stemless gentian, artichoke, sweet
william, carnation, garden phlox, love in the mist, mexican aster, alpine sea holly, ruby-lipped cattleya, cape
flower, great masterwort, siam tulip, lenten rose, barberton daisy, daffodil, sword lily, poinsettia, bolero deep
blue, wallflower, marigold, buttercup, oxeye daisy, common dandelion, petunia, wild pansy, primula, sunflower,
pelargonium, bishop of llandaff, gaura, geranium, orange dahlia, pink-yellow dahlia, cautleya spicata, japanese
anemone, black-eyed susan, silverbush, californian poppy, osteospermum, spring crocus, bearded iris, windflower, tree
poppy, gazania, azalea, water lily, rose, thorn apple, morning glory, passion flower, lotus, toad lily, anthurium,
frangipani, clematis, hibiscus, columbine, desert-rose, tree mallow, magnolia, cyclamen, watercress, canna lily,
hippeastrum, bee balm, ball moss, foxglove, bougainvillea, camellia, mallow, mexican petunia, bromelia, blanket
flower, trumpet creeper, blackberry lily"""

SETS = {"train": "trnid", "val": "valid", "test": "tstid"}


@DATASETS.register_module()
class Flowers102(LabeledImages):
    """Flowers-102: photos of 102 kinds of flowers, with the official split."""

    splits = SPLITS
    classes = [str(name) for name in NAMES.replace("\n", " ").split(", ")]

    def index(self, split: str) -> tuple[list[Any], np.ndarray]:
        inner = self.data_root / "flowers-102"
        root = inner if inner.is_dir() else self.data_root
        for name in ("jpg", "imagelabels.mat", "setid.mat"):
            if not (root / name).exists():
                raise missing(root / name, "a part of Flowers-102", "www.robots.ox.ac.uk/~vgg/data/flowers/102 has it")
        labels = _array(root / "imagelabels.mat", "labels") - 1
        check_labels(labels, 102, root / "imagelabels.mat", "get it again")
        numbers = _array(root / "setid.mat", SETS[split])  # from 1
        strange = numbers[(numbers < 1) | (numbers > len(labels))]
        if strange.size:
            raise DataError(
                f"{root / 'setid.mat'} lists image {strange[0]}, but imagelabels.mat has {len(labels)} labels: "
                "get both again"
            )
        paths = [root / "jpg" / f"image_{number:05d}.jpg" for number in numbers.tolist()]
        return list(zip(paths, labels[numbers - 1].tolist())), labels[numbers - 1]


def _array(path: Path, name: str) -> np.ndarray:
    arrays = read_mat(path)
    if name not in arrays:
        raise DataError(f"{path} must have an array '{name}', got {', '.join(arrays) or 'none'}: get it again")
    return arrays[name].ravel().astype(np.int64)
