"""The key `colours` of samples, in datasets, configs and files of before, and old names of classes and functions."""

import importlib
import warnings

import numpy as np
import pytest

from ndformer.framework.data.dataset import Dataset
from ndformer.framework.data.pack import Pack
from ndformer.framework.data.shards.dataset import Shards
from ndformer.framework.pictures.samples import DatasetSource
from ndformer.framework.registry import DATASETS, MODALITIES, TRANSFORMS
from ndformer.modalities.pointcloud.datasets.folder import CloudFolder
from tests.framework.data.photos import opened, pack
from tests.modalities.pointcloud.test_own_clouds import home  # noqa: F401 (a fixture, used by its name)

RNG = np.random.default_rng(0)
POINTS, COLORS = RNG.random((30, 3), np.float32), RNG.integers(0, 256, (30, 3)).astype(np.float32)


class Own(Dataset):
    """A dataset of a user, who wrote it before."""

    def index(self, split):
        self.classes = ["a", "b"]
        return [0, 1], np.array([0, 1])

    def read(self, record):
        return dict(points=POINTS, colours=COLORS, label=record)


@pytest.mark.parametrize("name", ["colours", "colors"])
def test_a_dataset_and_a_config_may_have_the_old_key(name):
    transforms = [dict(type="UnitColors"), dict(type="PackPoints", features=(name,), missing={name: 0.5})]
    with pytest.warns(DeprecationWarning, match="colours.* (called|written) .*colors.* now"):
        packed = Own("here", "test", transforms)[0]
    np.testing.assert_array_equal(packed["inputs"]["points"], np.concatenate([POINTS, COLORS / np.float32(255)], 1))
    assert "colours" not in packed["data_sample"]
    with pytest.warns(DeprecationWarning, match="'colours' is called 'colors' now"):
        assert DatasetSource(Own("here", "test")).original(0).std() > 0


def test_a_config_in_the_old_spelling_warns_and_fills_what_is_missing():
    with pytest.warns(DeprecationWarning, match=r"PackPoints: (features|missing)=.* is written .*'colors'"):
        pack = TRANSFORMS.create(dict(type="PackPoints", features=["colours"], missing=dict(colours=0.5)))
    packed = pack(dict(points=POINTS), RNG)["inputs"]["points"]
    assert packed[:, 3:].unique().tolist() == [0.5]
    with pytest.warns(DeprecationWarning, match="the option 'centres' is called 'centers' now"):
        assert MODALITIES.create(dict(type="PointPatches", centres=5), dim=8).centers == 5


def test_clouds_that_were_cached_under_the_old_key_are_read(home):  # noqa: F811 (the fixture)
    data = CloudFolder(home, "test")
    expected = data[0]
    (file,) = [path for path in (home / ".ndformer_cache").rglob("a.xyz.npz") if "flat" in path.parts]
    arrays = dict(np.load(file))
    arrays["colours"] = arrays.pop("colors") + 1
    np.savez(file, allow_pickle=False, **arrays)
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        sample = data[0]
    assert sample.keys() == expected.keys()
    np.testing.assert_array_equal(sample["colors"], expected["colors"] + 1)


def test_shards_that_were_packed_with_the_old_key_are_read(tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS.all(), "Own", Own)
    (tmp_path / "home").mkdir()
    with pytest.warns(DeprecationWarning, match="'colours' is called 'colors' now"):  # one sample is read back
        pack(tmp_path / "home", tmp_path / "packed", "Own")
    data = opened(tmp_path / "packed", kind="Own")
    assert isinstance(data, Shards)
    assert "colours" in data.read(data.records[0])
    with pytest.warns(DeprecationWarning, match="'colours' is called 'colors' now"):
        np.testing.assert_array_equal(data[1]["colors"], COLORS)


@pytest.mark.parametrize(
    "module, old, new",
    [
        ("framework.backbones", "FactorisedTransformer", "FactorizedTransformer"),
        ("framework.backbones.factorized", "FactorisedTransformer", "FactorizedTransformer"),
        ("framework.data.folders", "labelled", "labeled"),
        ("framework.pictures.samples", "write_labelled", "write_labeled"),
        ("modalities.driving.datasets.nuscenes.metric", "CentreDistance", "CenterDistance"),
        ("modalities.driving.models.center_point", "CentrePoint", "CenterPoint"),
        ("modalities.image.datasets.folder", "LabelledImages", "LabeledImages"),
        ("modalities.pointcloud.formats.files", "read_labelled", "read_labeled"),
        ("modalities.pointcloud.transforms.scenes", "CentrePoints", "CenterPoints"),
        ("modalities.pointcloud.transforms.scenes", "UnitColours", "UnitColors"),
    ],
)
def test_python_names_of_before_work_with_a_warning(module, old, new):
    imported = importlib.import_module(f"ndformer.{module}")
    with pytest.warns(DeprecationWarning, match=f"{old} is called {new} now"):
        assert getattr(imported, old) is getattr(imported, new)


def test_a_pack_of_ones_own_may_have_the_method_of_before(tmp_path):
    with pytest.warns(DeprecationWarning, match="Mine: write_labelled is called write_labeled now"):

        class Mine(Pack):
            def write_labelled(self, stem, sample, labels, classes):
                stem.write_text(f"{classes}")

    Mine().write_labeled(tmp_path / "a", {}, np.zeros(1), ["x"])
    assert (tmp_path / "a").read_text() == "['x']"
