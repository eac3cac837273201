"""Datasets in shards: the same samples as from folders, an order that reads disks forward, damage in one sentence."""

import gc
import itertools
import json
import pickle
import tarfile
import zlib
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mmengine.config import Config
from webdataset.compat import WebDataset

from ndformer.framework import foreign
from ndformer.framework.data.batches import Batches, windowed
from ndformer.framework.data.fingerprint import fingerprint
from ndformer.framework.data.shards import archive
from ndformer.framework.data.shards.archive import Archive
from ndformer.framework.data.shards.dataset import Shards
from ndformer.framework.engine.training.leakage import check_leakage
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.foreign import mounts
from ndformer.framework.registry import DATASETS
from tests.framework.data.photos import SPLITS, config, opened, pack, pixels

# ------------------------------------------------------------------------------------------------------ the same data


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("options", [dict(), dict(holdout=0.3), dict(per_class=1), dict(mode="L")], ids=str)
def test_samples_labels_and_fingerprints_are_those_of_the_folder(made, split, options):
    home, out, _ = made
    plain, data = opened(home, split, **options), opened(out, split, **options)
    assert isinstance(data, Shards)
    assert isinstance(data, type(plain))
    assert data.classes == plain.classes
    assert data.labels.tolist() == plain.labels.tolist()
    assert fingerprint(data) == fingerprint(plain)
    assert options.keys() - {"mode"} or data.stored_fingerprint() is not None
    assert pixels(data) == pixels(plain)
    assert [data.name(i).removeprefix(str(out)) for i in range(len(data))] == [
        plain.name(i).removeprefix(str(home)) for i in range(len(plain))
    ]


def test_the_type_shards_has_the_packed_options_and_other_options_are_refused(made, tmp_path):
    home, out, _ = made
    assert pixels(opened(out, "val", "Shards")) == pixels(opened(home, "val"))
    with pytest.raises(DataError, match=r"expected shards of MaskFolder, got those of ImageFolder\. Use a config"):
        opened(out, kind="MaskFolder")
    with pytest.raises(DataError, match="has no shards: ndformer pack_shards CONFIG"):
        opened(home, kind="Shards")
    DATASETS.get("ArcTasks")
    options: dict[str, Any] = dict(tasks=["mirror"], count=3, tested=2)
    pack(home, tmp_path / "drawn", "DrawnTasks", options=options)
    plain, data = opened(home, kind="DrawnTasks", **options), opened(tmp_path / "drawn", kind="DrawnTasks", **options)
    for i in range(len(plain)):
        a, b = plain.sample(0, i), data.sample(0, i)
        assert a.keys() == b.keys()
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert len(opened(tmp_path / "drawn", "test", "Shards")) == 2
    with pytest.raises(DataError, match=r"packed with count=3, and is read with count=4\. Use the packed values"):
        opened(tmp_path / "drawn", kind="DrawnTasks", **{**options, "count": 4})


def test_datasets_can_be_pickled_for_workers_that_are_not_forked(made):
    data = opened(made[1], "val")
    mounts._mounted.clear()
    assert pixels(pickle.loads(pickle.dumps(data))) == pixels(opened(made[0], "val"))


def test_splits_of_the_same_shards_are_compared(made):
    cfg = Config({f"{split}_dataloader": dict(dataset=dict()) for split in SPLITS})
    sets = {split: opened(made[1], split) for split in SPLITS}
    check_leakage(cfg, sets)
    with pytest.raises(DataError, match="val and train have 2 of the 2 samples of val in common"):
        check_leakage(cfg, sets | dict(train=opened(made[1], holdout=0)))


# ------------------------------------------------------------------------------------------------------ the tar files


def test_each_shard_has_webdatasets_layout_with_the_bytes_of_the_files(made):
    home, out, _ = made
    labels = {}
    for path in sorted(out.glob("*.tar")):
        tar: Any
        with tarfile.open(path) as tar:
            names = tar.getnames()
            keys = [name.partition(".")[0] for name in names]
            assert len([*itertools.groupby(keys)]) == len({*keys})  # the members of a key are adjacent
            assert all(info.isfile() and info.mtime == 0 and info.uname == "" for info in tar)
            for key in dict.fromkeys(keys):
                about = json.load(tar.extractfile(f"{key}.json"))
                ((ending, name),) = about["files"].items()
                assert tar.extractfile(f"{key}.{ending}").read() == (home / name).read_bytes()
                labels[name] = about["samples"][0]["class_name"]
    assert labels == {str(p.relative_to(home)): p.parent.name for p in home.rglob("*.*g")}


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_webdataset_reads_the_shards(made):
    urls = [str(path) for path in sorted(made[1].glob("train*.tar"))]
    samples = [*WebDataset(urls, shardshuffle=False)]
    gc.collect()  # the package leaves files open, which is reported when they are collected
    assert len(samples) == 24
    assert all("json" in sample and {"jpg", "png"} & set(sample) for sample in samples)


def test_shards_of_training_data_mix_the_classes(made):
    data = opened(made[1], holdout=0)
    assert data.shards is not None
    assert all(len(set(data.labels[data.shards == shard])) == 2 for shard in set(data.shards))


def test_packing_is_deterministic_and_continues_after_an_interruption(made, tmp_path):
    home, out, _ = made

    def interrupt(done, total):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pack(home, tmp_path / "again", jobs=1, progress=interrupt)
    with pytest.raises(DataError, match="has no shards"):
        opened(tmp_path / "again", kind="Shards")
    first = (tmp_path / "again" / "train-000000.tar").stat().st_ino
    pack(home, tmp_path / "again")
    assert (tmp_path / "again" / "train-000000.tar").stat().st_ino == first
    files = [path.relative_to(out) for path in sorted(out.rglob("*")) if path.is_file()]
    assert files == [p.relative_to(tmp_path / "again") for p in sorted((tmp_path / "again").rglob("*")) if p.is_file()]
    assert all((out / name).read_bytes() == (tmp_path / "again" / name).read_bytes() for name in files)
    with pytest.raises(DataError, match="has shards already: remove it"):
        pack(home, out)
    with pytest.raises(DataError, match="is not empty: choose another folder"):
        pack(home, home)


# --------------------------------------------------------------------------------------------------------- the order


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    processes=st.integers(1, 5),
    others=st.integers(1, 5),
    window=st.integers(1, 6),
    epoch=st.integers(0, 3),
    skip=st.integers(0, 4),
    shuffle=st.booleans(),
    in_shards=st.booleans(),
)
def test_an_epoch_has_every_sample_once_for_any_processes_and_resume(
    sizes, processes, others, window, epoch, skip, shuffle, in_shards
):
    shards = np.repeat(np.arange(len(sizes)), sizes)
    order = windowed(np.random.default_rng((0, epoch)), shards, window)
    assert sorted(order) == [*range(len(shards))]
    places = {shard: np.flatnonzero(shards[order] == shard) for shard in range(len(sizes))}
    begun = sorted(places, key=lambda shard: places[shard][0])  # a window of shards is read completely
    for later in range(window, len(begun), 1):
        assert sum(places[shard][-1] > places[begun[later]][0] for shard in begun[:later]) < window

    def batches(count, skipped=0):
        size = min(5, len(shards))
        every = [Batches(len(shards), size, shuffle, seed=3, rank=rank, processes=count) for rank in range(count)]
        for one in every:
            one.shards, one.skip = shards if in_shards else None, skipped
            one.set_epoch(epoch)
            assert len(one) == -(-len(shards) // size) - (shuffle and len(shards) % size > 0)
        return [[key for part in parts for key in part] for parts in zip(*map(list, every))]

    whole = batches(processes)
    flat = [i for batch in whole for _, i in batch]
    dropped = len(shards) % min(5, len(shards)) if shuffle else 0
    assert len(set(flat)) == len(flat) == len(shards) - dropped
    assert batches(others, min(skip, len(whole))) == whole[min(skip, len(whole)) :]


@pytest.mark.parametrize("workers", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 3))])
def test_a_loader_gives_every_sample_once_and_goes_on_within_an_epoch(made, workers):
    loader: Any = build_loader(config(made[1], workers), "train")
    assert loader.batch_sampler.shards is not None
    batches = [[s["path"] for s in batch["data_samples"]] for batch in loader]
    assert len({path for batch in batches for path in batch}) == 20 == sum(map(len, batches))
    loader.batch_sampler.skip = 2
    assert [[s["path"] for s in batch["data_samples"]] for batch in loader] == batches[2:]


# ------------------------------------------------------------------------------------------------------ large and local


def test_large_files_are_read_in_parts_and_copied_for_libraries_that_open_by_name(packed, monkeypatch):
    monkeypatch.setattr(mounts, "LARGE", 10)
    data: Any = opened(packed)
    path = data.records[0][0]
    files: Any = Archive(packed)
    content = files.content(files.find(str(path.relative_to(packed))))
    with foreign.opened(path) as file:
        assert file.read(7) + file.read() == content
        assert file.seek(-5, 2) == len(content) - 5
        assert file.read() == content[-5:]
    assert foreign.mapped_bytes(path).tobytes() == content == foreign.local(path).read_bytes()
    assert zlib.crc32(content) == foreign.status(path).st_mtime_ns
    assert foreign.local(path).suffix == path.suffix
    assert foreign.is_dir(packed / "train" / "cat")
    assert sorted(foreign.names_in(packed / "train")) == ["cat", "dog"]
    assert not foreign.is_file(packed / "train")
    for record in data.records:
        foreign.local(record[0])
    assert len([*cast(Any, mounts._home)[1].iterdir()]) == mounts.MAX_LOCAL


def test_few_shards_are_open_at_once(packed, monkeypatch):
    monkeypatch.setattr(archive, "OPEN_SHARDS", 2)
    data: Any = opened(packed)
    assert pixels(data) == pixels(data)
    assert len(data.archive._open) == 2


class Bag:
    """A class that is no dataclass."""

    def __init__(self, factor):
        self.factor = factor


class Doubled(DATASETS.get("ImageFolder")):
    """Sets an object in index() that read() uses."""

    def index(self, split):
        self._bag = Bag(3)
        return super().index(split)

    def read(self, record):
        return super().read(record) | dict(factor=self._bag.factor)


def test_attributes_that_index_sets_are_packed_if_their_class_is_named(made, tmp_path, monkeypatch):
    monkeypatch.setitem(DATASETS.module_dict, "Doubled", Doubled)
    with pytest.raises(
        DataError, match=r"Doubled: expected a sample from the shards, got AttributeError .*packed_types"
    ):
        pack(made[0], tmp_path / "a", "Doubled")
    monkeypatch.setattr(Doubled, "packed_types", (Bag,))
    pack(made[0], tmp_path / "a", "Doubled")
    assert opened(tmp_path / "a", "test", "Doubled").sample(0, 1)["factor"] == 3
