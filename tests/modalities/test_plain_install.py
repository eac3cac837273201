"""What a plain `pip install .` brings is enough for the generated samples; `make matrix` tries all recipes so."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
SMALL = dict(
    arc=dict(train=1, test=1),
    gen1=dict(recordings=dict(train=1, val=1, test=1)),
    lidar=dict(train=1, test=1),
    modelnet40=dict(train=1, test=1, points=64),
    nmnist=dict(train=1, test=1),
    nuscenes=dict(train=1, val=1, moments=1),
    paired=dict(train=1, test=1, points=64),
    scannet=dict(train=1, val=1),
    ucf101=dict(groups=1, clips=1, frames=4),
)
SCRIPT = """
import json, sys
from pathlib import Path

blocked, small = json.loads(sys.argv[1])
sys.modules |= dict.fromkeys(blocked)  # importing them is an ImportError, as where they are not installed
from ndformer.framework import registry
from ndformer.framework.data.dataset import create

for name, options in small.items():
    folder, stand_in = Path(name), registry.STAND_INS.get(name)
    folder.mkdir()
    stand_in.write(folder, 0, **options)
    if name != "ucf101":  # so few videos are in no list of it
        create(stand_in.dataset | dict(data_root=name, split="train"), 0).sample(0, 0)
from ndformer.modalities.video.formats.files import VideoFile
for backend in ("auto", "pyav"):
    assert VideoFile(next(Path("ucf101").rglob("*.avi")), backend).frames([3])[0].shape == (1, 120, 160, 3)
for found in vars(registry).values():
    if isinstance(found, registry.Registry):
        found.all()
"""


def plain() -> set[str]:
    """The distributions of an install without extras."""
    text = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", text, re.DOTALL | re.MULTILINE)
    assert listed is not None
    left, found = re.findall(r'^ *"(.+?)",', listed[1], re.MULTILINE), set()
    while left:
        one = Requirement(left.pop())
        name = re.sub(r"[-_.]+", "-", one.name).lower()
        if name in found or (one.marker is not None and not one.marker.evaluate(dict(extra=""))):
            continue
        found.add(name)
        try:
            left += metadata.requires(name) or []
        except metadata.PackageNotFoundError:  # of another Python
            continue
    return found


@pytest.mark.slow
def test_samples_are_made_and_read_without_extras(tmp_path):
    """Issue 44.31: `ndformer train ucf101_pape --sample` ended with "writing videos needs PyAV"."""
    enough = plain() | {"ndformer", "pip", "setuptools"}
    assert {"torch", "sympy", "opencv-python"} <= enough, "of torch and mmengine"
    blocked = [
        module
        for module, owners in metadata.packages_distributions().items()
        if not {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners} & enough and module.isidentifier()
    ]
    assert {"pytest", "numba", "h5py"} <= set(blocked)
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, json.dumps([blocked, SMALL])], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
