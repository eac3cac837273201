"""tools/make_sample.py: complete folders or none, no overwriting, and errors."""

import pytest

from ndformer.framework.data.stand_ins import StandIn
from ndformer.framework.registry import DATASETS, STAND_INS
from tests.programs import refusal
from tools import make_sample


class Dots(StandIn):
    def write(self, folder, seed=0):
        (folder / "dots.txt").write_text(f"seed {seed}")


@pytest.fixture
def dots(monkeypatch):
    monkeypatch.setitem(STAND_INS.all(), "dots", Dots)


def test_it_goes_to_data_samples_where_no_place_is_given(dots, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_sample.main(["dots"])
    assert (tmp_path / "data/samples/dots/dots.txt").read_text() == "seed 0"
    assert capsys.readouterr().out == "data/samples/dots\n"
    assert sorted(p.name for p in (tmp_path / "data/samples").iterdir()) == ["dots"]


def test_place_and_seed_are_as_given(dots, tmp_path):
    make_sample.main(["dots", "--out", str(tmp_path / "a/b"), "--seed", "5"])
    assert (tmp_path / "a/b/dots.txt").read_text() == "seed 5"


def test_an_empty_folder_is_used(dots, tmp_path):
    make_sample.main(["dots", "--out", str(tmp_path)])
    assert (tmp_path / "dots.txt").exists()


def test_a_folder_with_something_in_it_is_left_alone(dots, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    sentence = refusal(make_sample.main, "dots", "--out", tmp_path)
    assert sentence == f"{tmp_path} is not empty: name another folder, or remove it"
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]


def test_an_interruption_leaves_nothing_behind(dots, tmp_path, monkeypatch):
    class Half(Dots):
        def write(self, folder, seed=0):
            super().write(folder, seed)
            raise KeyboardInterrupt

    monkeypatch.setitem(STAND_INS.all(), "dots", Half)
    with pytest.raises(KeyboardInterrupt):
        make_sample.main(["dots", "--out", str(tmp_path / "x" / "out")])
    assert not list((tmp_path / "x").iterdir())


def test_an_unknown_name_gets_the_nearest_or_all():
    sentence = refusal(make_sample.main, "cifar1")
    assert sentence.startswith("no stand-in is called 'cifar1', did you mean 'cifar10")
    assert "mnist" in refusal(make_sample.main, "zzz")


@pytest.mark.slow
def test_a_real_one_is_read_and_its_baselines_are_printed(tmp_path, capsys):
    make_sample.main(["imagefolder", "--out", str(tmp_path / "set"), "--baselines"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == str(tmp_path / "set")
    assert [line[:34].strip() for line in lines[1:]] == [
        "color statistics",
        "coarse layout",
        "raw pixels",
        "most frequent class",
    ]
    assert lines[-1].endswith("10.0%")
    assert len(DATASETS.create(dict(type="ImageFolder", data_root=tmp_path / "set"))) == 600


def test_every_stand_in_names_the_dataset_that_reads_it_and_its_baselines():
    assert len(STAND_INS.all()) == 18
    for stand_in in STAND_INS.all().values():
        dataset = DATASETS.get(stand_in.dataset["type"])
        for beside in (dataset, stand_in.baselines):  # all of one modality
            assert beside.__module__.split(".")[:3] == stand_in.__module__.split(".")[:3]


def test_one_without_baselines_says_so(dots, tmp_path, monkeypatch):
    monkeypatch.setattr(Dots, "dataset", dict(type="ImageFolder"), raising=False)
    monkeypatch.setattr(DATASETS, "create", lambda cfg: None)
    sentence = refusal(make_sample.main, "dots", "--out", tmp_path / "x", "--baselines")
    assert sentence.startswith("this stand-in has no baselines")
