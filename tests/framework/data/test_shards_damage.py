"""Shards that are damaged or hostile: one sentence, or skipped samples."""

import io
import json
from typing import Any

import numpy as np
import pytest

from ndformer.framework.data.shards.archive import Archive
from ndformer.framework.data.shards.values import Values
from ndformer.framework.engine.training.loading import build_loader
from ndformer.framework.errors import DataError
from ndformer.framework.registry import DATASETS
from tests.framework.data.photos import config, opened, pixels


def flip(path, at):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def change(root, name, make):
    """Change an array of an index without checksums of its arrays, as of older versions and of an attacker."""
    rewrite(root, crc={})
    path = root / "index" / f"{name}.npy"
    np.save(path, make(np.load(path)), allow_pickle=True)


def swap(root):
    (root / "train-000000.tar").rename(root / "x.tar")
    (root / "train-000001.tar").rename(root / "train-000000.tar")
    (root / "x.tar").rename(root / "train-000001.tar")


SECOND = "train-000001.tar"
SHARD_DAMAGE = {
    "missing": (lambda root: (root / SECOND).unlink(), rf"{SECOND}: expected a shard of \d+ bytes, got No such"),
    "cut off": (lambda root: (root / SECOND).write_bytes(b"x" * 700), rf"{SECOND}: expected \d+ bytes, got 700\. Copy"),
}  # fmt: skip


@pytest.mark.parametrize("damage", SHARD_DAMAGE)
def test_a_missing_or_truncated_shard_raises_an_error_before_training_or_its_samples_are_skipped(packed, damage):
    spoil, sentence = SHARD_DAMAGE[damage]
    spoil(packed)
    with pytest.raises(DataError, match=sentence):
        build_loader(config(packed), "train")
    with pytest.raises(DataError, match=sentence):
        pixels(opened(packed))
    loader = build_loader(config(packed, skip_bad=True), "train")
    assert sum(len(batch["data_samples"]) for batch in loader) == 20
    assert 0 < len(loader.bad) < 15


@pytest.mark.parametrize(
    "damage", [swap, lambda root: flip(root / "train-000001.tar", 600)], ids=["reordered", "flipped"]
)
def test_changed_bytes_fail_their_checksum(packed, damage):
    damage(packed)
    with pytest.raises(
        DataError, match=r"expected (the checksum [0-9a-f]{8} at byte \d+ of .*\.tar, got|\d+ bytes, got)"
    ):
        pixels(opened(packed))


OUTSIDE = "expected files inside of the shards, got"
INDEX_DAMAGE = {
    "another version": (lambda root: meta(root, '{"form": 7}'), "expected an index of version 1, got 7. Copy"),
    "no JSON": (lambda root: meta(root, "{"), "meta.json is not JSON"),
    "no keys": (lambda root: meta(root, '{"form": 1}'), "meta.json is damaged"),
    "a shard elsewhere": (lambda root: rewrite(root, shards=[["../a.tar", 9]]), "NAME.tar, got '../a.tar'"),
    "sizes beyond": (lambda root: change(root, "files.size", lambda a: a + 2**60), OUTSIDE),
    "sizes that overflow": (lambda root: change(root, "files.size", lambda a: a + (2**63 - 1 - a.max())), OUTSIDE),
    "negative offsets": (lambda root: change(root, "files.offset", lambda a: a - 2**40), OUTSIDE),
    "unknown shards": (lambda root: change(root, "files.shard", lambda a: a + 99), OUTSIDE),
    "unknown labels": (lambda root: change(root, "0.label", lambda a: a + 99), "0 to 1"),
    "names that are none": (lambda root: table(root, classes=[["cat"], 3]), "meta.json is damaged"),
    "another type": (lambda root: change(root, "files.crc", lambda a: a * 0.5), "files.crc.npy: expected uint32, got"),
    "fewer rows": (lambda root: change(root, "0.label", lambda a: a[1:]), "expected arrays of"),
    "huge claims": (lambda root: write_claim(root, 10**15), "0.label.npy cannot be read"),
    "objects": (lambda root: change(root, "0.label", lambda a: a.astype(object)), "holds objects"),
    "a state that is code": (lambda root: table(root, state=CODE), "'os:system' is no dataclass"),
    "a state that is cut off": (lambda root: table(root, state="[" * 50), "a record of the index is damaged"),
    "a state and more": (lambda root: table(root, state='{"$dict":[]}]'), "damaged (it has 1 letters too many)"),
}
CODE = '{"$object":["os:system",[["command","true"]]]}'


def meta(root, text):
    (root / "index" / "meta.json").write_text(text)


def rewrite(root, **changes):
    path = root / "index" / "meta.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def table(root, **changes):
    tables = json.loads((root / "index" / "meta.json").read_text())["tables"]
    rewrite(root, tables=[tables[0] | changes, *tables[1:]])


def write_claim(root, count):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, dict(descr="<i8", fortran_order=False, shape=(count,)))
    rewrite(root, crc={})
    (root / "index/0.label.npy").write_bytes(buffer.getvalue())


@pytest.mark.parametrize("damage", INDEX_DAMAGE)
def test_a_damaged_or_hostile_index_raises_a_one_line_error(packed, damage):
    spoil, sentence = INDEX_DAMAGE[damage]
    spoil(packed)
    with pytest.raises(DataError) as error:
        opened(packed)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("text", [b"?", b"1,2"], ids=["no JSON", "two values"])
def test_a_damaged_record_spoils_its_own_sample_only_though_batches_are_decoded_together(packed, text):
    data: Any = opened(packed)
    row = int(data.records.rows[0])
    begin, end = np.load(packed / "index" / "0.start.npy")[row : row + 2]
    damaged = np.frombuffer(text.ljust(end - begin), np.uint8)
    change(packed, "0.text", lambda array: np.concatenate([array[:begin], damaged, array[end:]]))
    data = opened(packed)
    data.skip_bad = True
    spoiled, whole = data.__getitems__([(0, 0), (0, 1)])
    assert spoiled["bad"]
    assert "bad" not in whole
    assert whole["index"] == 1


def whole_index(root):
    archive = Archive(root)
    return [archive.table(k) for k in range(len(archive.tables))]


def test_a_changed_array_of_the_index_fails_its_checksum(packed):
    names = sorted(path.stem for path in (packed / "index").glob("*.npy"))
    assert {"0.label", "0.text", "files.offset"} <= set(names)
    for name in names:
        path = packed / "index" / f"{name}.npy"
        content = path.read_bytes()
        flip(path, -1)
        with pytest.raises(DataError, match=rf"{name}\.npy: expected the checksum [0-9a-f]{{8}}, got another"):
            whole_index(packed)
        path.write_bytes(content)
    opened(packed)


def test_records_stay_in_the_data_folder(tmp_path):
    values = Values(tmp_path, DATASETS.get("ImageFolder"))
    with pytest.raises(DataError, match="leads outside"):
        values.decode('{"$path":"../../etc/passwd"}')
    with pytest.raises(DataError, match="is outside of .* shards have files below the data folder"):
        values.encode(tmp_path.parent / "a.jpg")
