"""Untrusted files run nothing, and are read in bounded time and memory."""

import json
import os
import pickle
import signal
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

from ndformer.framework import foreign
from ndformer.framework.engine.training.owner import Owner
from ndformer.framework.errors import DataError
from ndformer.framework.evaluation.coco.files import read_truth
from ndformer.framework.foreign.files import size_from
from ndformer.framework.foreign.plain import SIZE
from ndformer.framework.foreign.weights import load_tensors
from ndformer.framework.registry import DATASETS
from ndformer.modalities.image.formats.files import open_image

EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n"


@pytest.fixture
def yolo(tmp_path):
    for split in ("train", "val"):
        for kind in ("images", "labels"):
            (tmp_path / split / kind).mkdir(parents=True)
        Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / split / "images" / "a.png")
        (tmp_path / split / "labels" / "a.txt").write_text("0 0.5 0.5 0.5 0.5\n")
    return tmp_path


def read(root, text):
    (root / "data.yaml").write_text(text)
    return DATASETS.create(dict(type="YoloFolder", data_root=root, split="train"))


def test_names_are_read_as_lists_and_as_numbers_with_names(yolo):
    assert read(yolo, "names: [cat, dog]").classes == ["cat", "dog"]
    assert read(yolo, "nc: 2\nnames:\n  1: dog\n  0: cat\n").classes == ["cat", "dog"]


@pytest.mark.parametrize(
    "text",
    [
        "nc: !!python/object/apply:pathlib.Path.touch [{0}]",
        "names: !!python/object/new:os.system ['touch {0}']",
        "!!python/object/apply:os.system ['touch {0}']",
        "names: !!python/name:os.system",
    ],
)
def test_yaml_makes_no_objects_and_calls_nothing(yolo, text):
    with pytest.raises(DataError, match=r"data.yaml is not plain YAML \(could not determine a constructor for the tag"):
        read(yolo, text.format(yolo / "touched"))
    assert not (yolo / "touched").exists()


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("[" * 100_000, "nests deeper than 20"),
        ("a0: &a0 [x, x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" for i in range(1, 30)), "aliases"),
        ("names: [cat, dog", "is not plain YAML"),
        ("names: \x00", "is not plain YAML"),
    ],
)
def test_bombs_and_damage_are_a_sentence(yolo, text, sentence):
    with pytest.raises(DataError, match=sentence):
        read(yolo, text)


def test_what_is_no_text_or_too_large_is_a_sentence(tmp_path):
    (tmp_path / "a.yaml").write_bytes(pickle.dumps(dict(names=["cat"])))
    with pytest.raises(DataError, match="is not plain YAML"):
        foreign.plain_yaml(tmp_path / "a.yaml")
    with (tmp_path / "b.yaml").open("wb") as file:
        file.truncate(SIZE + 1)
    with pytest.raises(DataError, match="has 16777217 bytes"):
        foreign.plain_yaml(tmp_path / "b.yaml")


def test_an_eps_by_another_name_starts_no_program(tmp_path, monkeypatch):
    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *given: pytest.fail("Ghostscript was started"))
    (tmp_path / "photo.jpg").write_bytes(EPS)
    with Image.open(tmp_path / "photo.jpg") as there:  # PIL would take it
        assert there.format == "EPS"
    with pytest.raises(DataError, match="it is none of JPEG, PNG"), foreign.image(tmp_path / "photo.jpg"):
        pass
    with pytest.raises(DataError, match="photo.jpg cannot be read as an image"):
        open_image(tmp_path / "photo.jpg")


def test_json_that_becomes_large_deep_or_slow_is_told_before_it_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "32M")
    path = tmp_path / "a.json"
    for content, error, sentence in (
        ("[" + "[]," * 500_000 + "[]]", DataError, r"a.json would take 46 MiB of memory, and one file may take 32"),
        ("[" * 1_000_000, DataError, "would take"),
        ("[" * 101 + "]" * 101, ValueError, "lists in lists, deeper than 100"),
        ('{"a":' * 101 + "1" + "}" * 101, ValueError, "deeper than 100"),
        ("9" * 1_000_000, ValueError, "digits"),
        ("\xff", ValueError, "can't decode"),
    ):
        path.write_bytes(content.encode("latin-1"))
        with pytest.raises(error, match=sentence):
            foreign.plain_json(path)
    path.write_text(json.dumps([[[]] * 1000, "[" * 98, dict(a=1.5)]))
    assert foreign.plain_json(path)[2] == dict(a=1.5)


def test_numbers_of_json_that_are_none_are_a_sentence_where_numbers_are_wanted(tmp_path):
    for number in ("1e400", "NaN", "9" * 400, '"1"', "[1]", "null"):
        box = f"[0, 0, 1, {number}]"
        (tmp_path / "a.json").write_text(
            '{"images": [{"id": 1}], "categories": [{"id": 1, "name": "a"}], '
            f'"annotations": [{{"id": 1, "image_id": 1, "category_id": 1, "bbox": {box}}}]}}'
        )
        with pytest.raises(DataError, match="annotation 0 of .* has the bbox .*: it takes 4 finite numbers"):
            read_truth(tmp_path / "a.json")


def test_lists_have_lines_and_not_one(tmp_path):
    path = tmp_path / "classes.txt"
    path.write_text("x" * 70_000)
    with pytest.raises(DataError, match="classes.txt has a line of 70000 characters, and a list has 65536 at most"):
        foreign.lines(path)
    with path.open("wb") as file:
        file.truncate(200_000_000)
    with pytest.raises(DataError, match="classes.txt would take 3,052 MiB"):
        foreign.lines(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match="is not a list in UTF-8"):
        foreign.lines(path)
    path.write_bytes(b"\xef\xbb\xbfcat\r\ndog\n")
    assert foreign.lines(path) == ["cat", "dog"]


def test_xml_is_of_a_bounded_size_and_of_a_known_encoding(tmp_path):
    path = tmp_path / "a.xml"
    with path.open("wb") as file:
        file.truncate(50_000_000)
    with pytest.raises(DataError, match="would take 1,526 MiB"):
        foreign.plain_xml(path)
    path.write_text('<?xml version="1.0" encoding="none-such"?><a/>')
    with pytest.raises((ValueError, ElementTree.ParseError)):
        foreign.plain_xml(path)


READERS: dict[str, Callable[[Path], object]] = {
    name: vars(foreign)[name]
    for name in ("opened", "content", "text", "lines", "plain_json", "plain_yaml", "plain_xml", "picture", "image_size")
}
READERS |= {name: vars(foreign)[name] for name in ("array", "arrays", "archive", "tables", "notes", "plain_pickle")}
READERS |= dict(
    gunzipped=lambda path: foreign.gunzipped(path, 8),
    is_weights=foreign.is_weights,
    has_zip_entry=lambda path: foreign.has_zip_entry(path, "a"),
    json_rows=lambda path: list(foreign.json_rows(path)),
    text_rows=lambda path: list(foreign.text_rows(path)),
    load_tensors=load_tensors,
    load_tensors_safetensors=lambda path: load_tensors(path.with_name(f"{path.name}.safetensors")),
    owner=Owner.read,
)


@pytest.fixture
def in_seconds() -> Iterator[None]:
    """Fail instead of waiting for a pipe."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(10)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.usefixtures("in_seconds")
@pytest.mark.parametrize("reader", READERS)
def test_pipes_devices_and_folders_are_no_files(tmp_path, reader):
    for ending in ("", ".safetensors"):
        os.mkfifo(tmp_path / f"pipe{ending}")
        (tmp_path / f"link{ending}").symlink_to("/dev/zero")
        (tmp_path / f"folder{ending}").mkdir()
    for name, kind in dict(pipe="pipe", link="device", folder="folder").items():
        if (reader, name) == ("owner", "link"):
            continue  # links are no owners, wherever they lead
        with pytest.raises(DataError, match=f"{name}.* is a .*{kind}.*, and a file was expected"):
            READERS[reader](tmp_path / name)


def test_sizes_are_numbers_with_a_letter():
    sizes = [size_from(text) for text in ("1000", "2K", "512m", "1.5G", "4GiB")]
    assert sizes == [1000, 2048, 2**29, 3 * 2**29, 2**32]
    for wrong in ("", "-1", "G", "1e9", "9" * 99, "2 apples"):
        with pytest.raises(DataError, match="is a size like 512M or 2G"):
            size_from(wrong)


def test_rows_of_text_are_bounded_by_the_memory_of_their_numbers(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_bytes(b"1\n" * 65)  # 8 bytes for each byte of the file
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "1K")
    with pytest.raises(DataError, match="a.txt would take 0 MiB of memory"):
        list(foreign.text_rows(path))
    path.write_bytes(b"1\n" * 64)
    assert list(foreign.text_rows(path)) == ["1\n"] * 64


def test_a_high_limit_takes_no_more_memory_than_the_file(tmp_path, monkeypatch):
    (tmp_path / "a.txt").write_text("small")
    monkeypatch.setenv("NDFORMER_FILE_LIMIT", "4G")
    tracemalloc.start()
    try:
        assert foreign.content(tmp_path / "a.txt") == b"small"
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
