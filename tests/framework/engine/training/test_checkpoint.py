"""Untrusted checkpoints: malicious, damaged, of another model or size, as safetensors."""

import pickle
import random
import zipfile

import pytest
import torch
from torch import nn

from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.engine.building import build_model
from ndformer.framework.engine.training import checkpoint, contents, exported
from ndformer.framework.errors import DataError
from ndformer.framework.system import archive
from tests.framework.engine.training.runs import Malicious
from tests.soak import flips
from tests.soak.tiny import config


@pytest.mark.parametrize("write", [lambda x, p: torch.save(x, p), lambda x, p: p.write_bytes(pickle.dumps(x))])
def test_a_malicious_pickle_executes_nothing_and_raises_a_one_line_error(tmp_path, write):
    target = tmp_path / "pwned"
    write(dict(model=dict(), evil=Malicious(target)), tmp_path / "last.pth")
    with pytest.raises(DataError, match="not a checkpoint that can be read safely") as error:
        checkpoint.load(tmp_path / "last.pth")
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match="not a checkpoint that can be read safely"):
        checkpoint.load_newest(tmp_path)
    assert not target.exists()


def test_safetensors_keep_weights_and_metadata(tmp_path):
    model = build_model(config())
    content = dict(
        model=model.state_dict(), classes=["a", "b", "c"], epoch=3, metrics=dict(accuracy=0.5), config="x = 1"
    )
    path = tmp_path / "weights.safetensors"
    exported.export(path, content)
    found = checkpoint.load(path)
    assert found["classes"] == ["a", "b", "c"]
    assert found["epoch"] == 3
    other = build_model(config())
    checkpoint.load_weights(other, found, path)
    assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values()))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(DataError, match="not a checkpoint that can be read safely"):
        checkpoint.load(path)
    with pytest.raises(DataError, match="expected a name that ends in .safetensors"):
        exported.export(tmp_path / "weights.pth", content)


class Holder(nn.Module):
    def __init__(self, reach, dims, **options):
        super().__init__()
        encoding = build_encoding(
            dict(type="RelativeBias", reach=reach, **options), dim=8, heads=2, position_dims=dims, depth=1
        )
        self.layer = encoding.layer(0, 1)


@pytest.mark.parametrize("dims, options", [(1, {}), (2, {}), (2, dict(joint=True))])
def test_position_tables_are_resized_only_on_request(dims, options):
    small, large = Holder(2, dims, **options), Holder(4, dims, **options)
    content = dict(model=small.state_dict())
    with pytest.raises(DataError, match=r"layer.tables.0 \(2, \d+\) instead of .*position tables"):
        checkpoint.load_weights(large, content, "x.pth")
    checkpoint.load_weights(large, content, "x.pth", resize=True)
    for given, own in zip(small.state_dict().values(), large.state_dict().values()):
        axes = 2 if options else 1
        a, b = given.reshape(2, *[5] * axes), own.reshape(2, *[9] * axes)
        every = (slice(None), *[slice(None, None, 2)] * axes)
        torch.testing.assert_close(b[every], a)


def test_other_weights_are_never_resized():
    model = nn.Linear(3, 2)
    with pytest.raises(DataError, match=r"weight \(2, 3\) instead of \(2, 4\)"):
        checkpoint.load_weights(nn.Linear(4, 2), dict(model=model.state_dict()), "x.pth", resize=True)


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """last.pth and best.pth of a run, and its best weights exported."""
    return flips.made(tmp_path_factory.mktemp("flips") / "run")


def test_flipped_bits_and_truncation_are_detected_or_change_nothing(paths, tmp_path):
    rng = random.Random(1)
    for path in [*paths, flips.RELEASED / checkpoint.BEST]:
        counts, wrong = flips.series(path, 30, 10, rng, tmp_path)
        assert wrong == []
        assert counts["noticed"] >= 20


def test_a_missing_digest_is_detected(paths, tmp_path):
    content = bytearray(paths[0].read_bytes())
    content[content.rindex(archive.MARK)] ^= 1
    (tmp_path / "last.pth").write_bytes(content)
    with pytest.raises(DataError, match="its digest is missing"):
        checkpoint.load(tmp_path / "last.pth")


def deflated(path, content):
    torch.save(content, path)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(path.with_suffix(".b"), "w", zipfile.ZIP_DEFLATED) as new:
        for record in old.infolist():
            new.writestr(record.filename, old.read(record))
    path.with_suffix(".b").replace(path)


def prepended(path, content):
    torch.save(content, path)
    path.write_bytes(b"before it" + path.read_bytes())


def deep(value, times):
    for _ in range(times):
        value = [value]
    return value


def wide(times):
    value = [0]
    for _ in range(times):
        value = [value] * 10
    return value


BOMBS = {
    "deflated": (deflated, dict(model=dict(w=torch.zeros(10**6))), "its records expand"),
    "in front": (prepended, dict(model={}), "not where torch.save puts them"),
    "stretched": (None, dict(model=dict(w=torch.zeros(1).expand(10**6, 10**6))), r"tensors take 4000000000000 bytes"),
    "deep": (None, dict(model={}, history=deep(0, 100)), "nests deeper than 64"),
    "wide": (None, dict(model={}, history=wide(20)), "more than 10000000 values"),
    "huge": (None, dict(model={}, epoch=10**60), "a number of 200 bits"),
    "sparse": (None, dict(model=dict(w=torch.eye(3).to_sparse())), "not plain"),
    "meta": (None, dict(model=dict(w=torch.empty(10**6, 10**6, device="meta"))), "not plain"),
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_archive_bombs_are_refused_before_they_expand(tmp_path, bomb):
    write, content, why = BOMBS[bomb]
    (write or (lambda path, content: torch.save(content, path)))(tmp_path / "x.pth", content)
    with pytest.raises(DataError, match=rf"is not a checkpoint that can be read safely \(.*{why}") as error:
        checkpoint.load(tmp_path / "x.pth")
    assert str(error.value).isprintable()


WRONG = [5, -1, 10**20, None, True, 0.5, float("nan"), "x", [], [5], [[]], {}, {"a": 5}, {5: 5}, torch.zeros(2)]


def test_each_missing_or_wrong_key_raises_an_error(paths):
    """The valid types differ from key to key, so each key must refuse at least 8 of these values."""
    whole = checkpoint.load(paths[0])
    for key in whole:
        said = []
        for wrong in ["missing", *WRONG]:
            content = {name: value for name, value in whole.items() if name != key}
            content |= {} if wrong == "missing" else {key: wrong}
            try:
                contents.check(content, paths[0])
                contents.check_run(content, paths[0])
            except DataError as error:
                said.append(str(error))
        assert len(said) >= 8, key
        assert all(map(str.isprintable, said)), key


def test_a_newer_checkpoint_format_raises_an_error(tmp_path):
    checkpoint.save(tmp_path / "x.pth", dict(model={}, format=checkpoint.FORMAT + 1))
    with pytest.raises(DataError, match="expected a checkpoint format up to 3, got 4"):
        checkpoint.load(tmp_path / "x.pth")


def test_names_in_errors_are_printable(tmp_path):
    torch.save({"model": {"\x1b[31m\nforged": torch.zeros(2)}}, tmp_path / "x.pth")
    with pytest.raises(DataError, match="'model' in .*: expected tensors by name") as error:
        checkpoint.load(tmp_path / "x.pth")
    assert str(error.value).isprintable()


def test_class_names_have_a_maximum_length(tmp_path):
    """Issue 44.26: pictures drew names of 100,000 letters."""
    checkpoint.save(tmp_path / "a.pth", dict(model={}, classes=["a" * 1001]))
    with pytest.raises(DataError, match="'classes' in .*a.pth: expected a list of names of up to 1000 letters"):
        checkpoint.load(tmp_path / "a.pth")


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_not_finite_are_refused(value):
    """Issue 44.30: predict answered with them, and explore and export wrote files."""
    model = nn.ModuleDict(dict(backbone=nn.Linear(2, 2), head=nn.Linear(2, 2)))
    content = dict(model=dict(model.state_dict()) | {"backbone.bias": torch.tensor([0.0, value])})
    with pytest.raises(DataError, match="x.pth: expected finite weights, got NaN or infinity in backbone.bias"):
        checkpoint.load_weights(model, content, "x.pth")
    assert model["backbone"].state_dict()["bias"].isfinite().all()
