"""A folder of molecule files with a table of targets."""

from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.data.regression import target_table
from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.datasets.folder import MoleculeFolder
from tests.modalities.molecules.test_originals import damaged


def write(home: Path, table: str, count: int = 10) -> Path:
    for i in range(count):
        atoms = "".join(f"H 0 0 {k}\n" for k in range(i + 1))
        (home / f"{i}.xyz").write_text(f"{i + 1}\n\n{atoms}")
    (home / "targets.csv").write_text(table)
    return home


ROWS = "".join(f"{i}.xyz,{i}.5,{'' if i == 3 else -i}\n" for i in range(10))
TABLE = f"file,gap (meV),score\n{ROWS}"


def test_the_table_gives_targets_and_the_seed_the_splits(tmp_path):
    write(tmp_path, TABLE)
    parts = {split: MoleculeFolder(tmp_path, split, tested=0.2, holdout=0.2) for split in ("train", "val", "test")}
    names = {split: [Path(part.read(r)["path"]).name for r in part.records] for split, part in parts.items()}
    assert {split: len(part) for split, part in parts.items()} == dict(train=6, val=2, test=2)
    assert sorted(sum(names.values(), [])) == [f"{i}.xyz" for i in range(10)]
    data = parts["train"]
    assert data.classes == ["gap (meV)", "score"]
    for record, length in zip(data.records, data.lengths()):
        sample, i = data.read(record), int(record.path.stem)
        assert len(sample["molecules"]) == length == i + 1
        assert sample["targets"].tolist() == pytest.approx([i + 0.5, np.nan if i == 3 else -i], nan_ok=True)
    assert MoleculeFolder(tmp_path, targets=["score"]).classes == ["score"]


def test_the_table_may_name_the_splits(tmp_path):
    lines = [f"{i}.xyz,{['train', 'val', 'test'][i % 3]},{i}" for i in range(10)]
    write(tmp_path, "\n".join(["file,split,score", *lines, ""]))
    sizes = {split: len(MoleculeFolder(tmp_path, split)) for split in ("train", "val", "test")}
    assert sizes == dict(train=4, val=3, test=3)
    packed = MoleculeFolder(tmp_path, transforms=[dict(type="PackAtoms")])
    table = target_table(packed)
    assert table.targets[:, 0].tolist() == [0, 3, 6, 9]
    assert table.composition is not None
    assert table.composition[:, 1].tolist() == [1, 4, 7, 10]


@pytest.mark.parametrize(
    "table, words",
    [
        ("", "must have rows and a column 'file'"),
        ("name,score\na,1\n", "must have rows and a column 'file'"),
        ("file\n0.xyz\n1.xyz\n2.xyz\n", "no column of a target"),
        ("file,score\n0.xyz,1\n1.txt,1\n", "must end in one of"),
        ("file,score\n0.xyz,1\n1.xyz,high\n", "a target of 1.xyz is no number"),
        ("file,score\n0.xyz,1\n../1.xyz,1\n", "leads outside of it"),
        ("file,split,score\n0.xyz,learn,1\n", "must be train, val or test, got 'learn'"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path, table, words):
    write(tmp_path, table)
    with pytest.raises(DataError, match=words) as caught:
        [MoleculeFolder(tmp_path, split) for split in ("train", "test")]
    assert "\n" not in str(caught.value)


def test_missing_columns_and_tables_are_named(tmp_path):
    with pytest.raises(DataError, match="targets.csv is missing"):
        MoleculeFolder(tmp_path)
    with pytest.raises(DataError, match="no column 'gap', did you mean 'gap \\(meV\\)'"):
        MoleculeFolder(write(tmp_path, TABLE), targets=["gap"])


def test_damaged_tables_raise_nothing_but_a_sentence(tmp_path):
    content, sentences = write(tmp_path, TABLE).joinpath("targets.csv").read_bytes(), list[str]()
    for i in range(50):
        (tmp_path / "targets.csv").write_bytes(damaged(content, i))
        try:
            for split in ("train", "val", "test"):
                data = MoleculeFolder(tmp_path, split)
                [data.read(record) for record in data.records]
        except DataError as error:
            sentences.append(str(error))
    assert len(sentences) > 10
    assert not any("\n" in sentence for sentence in sentences)
