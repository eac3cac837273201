"""A folder of molecule files with a table of targets."""

from pathlib import Path

import numpy as np
import pytest

from ndformer.framework.data.describe import describe
from ndformer.framework.data.regression import target_table
from ndformer.framework.engine.config.load import load
from ndformer.framework.engine.training.token_lengths import token_lengths
from ndformer.framework.errors import DataError
from ndformer.modalities.molecules.datasets.folder import MoleculeFolder
from tests.modalities.molecules.test_originals import damaged
from tests.programs import CONFIGS


def write(home: Path, table: str, count: int = 10) -> Path:
    for i in range(count):
        atoms = "".join(f"H 0 0 {0.7 * k:.1f}\n" for k in range(i + 1))
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
        ("File,score\n0.xyz,1\n", "a column 'file', got the columns 'File', 'score' and 1 rows"),
        ("file;score\n0.xyz;1\n", "got the columns 'file;score' .* separated by commas"),
        ("file,score\n", "and 0 rows"),
        ("file\n0.xyz\n1.xyz\n2.xyz\n", "no column of a target"),
        ("file,E (eV)\n0.xyz,1.5\n\n1.xyz,-1,5\n", "targets.csv, line 4: expected 2 cells, .* got 3. .* a point"),
        ("file,a,b\n0.xyz,1\n", "line 2: expected 3 cells, .* got 2"),
        ("file,split,score\n0.xyz,train,1\n./0.xyz,test,2\n", "the file '0.xyz' must occur once"),
        ("file,score,score\n0.xyz,1,2\n", "the column 'score' must occur once"),
        ("file,score\n0.xyz,1\n1.xyz,inf\n", "'inf' is not finite"),
        ("file,score\n0.xyz,1\n1.xyz,1_2\n", "'1_2' is no number"),
        (
            "file,smiles,score\n0.xyz,CO,1\n1.xyz,CO,1\n",
            "'smiles' of .*'CO' is no number.* select columns with dataset.targets",
        ),
        ("file,score\n0.xyz,1\n1.txt,1\n", "must end in one of"),
        ("file,score\n0.xyz,1\n1.xyz,high\n", "the target 'score' of 1.xyz must be a number"),
        ("file,score\n0.xyz,1\n../1.xyz,1\n", "leads outside of it"),
        ("file,split,score\n0.xyz,learn,1\n", "must be train, val or test, got 'learn'"),
    ],
)
def test_a_wrong_table_is_one_sentence(tmp_path, table, words):
    write(tmp_path, table)
    with pytest.raises(DataError, match=words) as caught:
        [MoleculeFolder(tmp_path, split) for split in ("train", "test")]
    assert "\n" not in str(caught.value)


def test_blanks_around_cells_and_exponents_of_fortran_are_read(tmp_path):
    write(tmp_path, "file, split, E\n0.xyz, train, 1.2D+01\n1.xyz , val,\n2.xyz, test, 2 \n , , \n")
    data = {split: MoleculeFolder(tmp_path, split) for split in ("train", "val", "test")}
    assert [(part.classes, len(part)) for part in data.values()] == [(["E"], 1)] * 3
    values = [part.read(part.records[0])["targets"][0] for part in data.values()]
    assert values == pytest.approx([12, np.nan, 2], nan_ok=True)


def test_a_target_is_requested_once(tmp_path):
    with pytest.raises(DataError, match="the target 'score' must occur once"):
        MoleculeFolder(write(tmp_path, TABLE), targets=["score", "score"])


def test_a_column_of_text_names_the_option_that_leaves_it_out(tmp_path):
    with pytest.raises(DataError) as caught:
        MoleculeFolder(write(tmp_path, "file,smiles,E\n0.xyz,CO,1\n1.xyz,CO,2\n"))
    assert caught.value.option == "--cfg-options \"dataset.targets=['E']\""


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


def test_columns_of_a_vector_rotate_with_the_molecule(tmp_path):
    """The vector is the second atom's position relative to the first's."""
    table = "file,d_z (D),E (eV),d_x (D),d_y (D)\n" + "".join(f"{i}.xyz,{1 + i},2,0,0\n" for i in range(9))
    write(tmp_path, table + "9.xyz,,2,0,0\n", 10)
    for i in range(10):
        (tmp_path / f"{i}.xyz").write_text(f"2\n\nC 0 0 0\nO 0 0 {1 + i}\n")
    data = MoleculeFolder(tmp_path, "train", transforms=[dict(type="RotateAtoms"), dict(type="PackAtoms")])
    assert data.classes == ["d_z (D)", "E (eV)", "d_x (D)", "d_y (D)"]  # as in the table
    for i in range(len(data)):
        sample = data[i]
        rows, values = sample["inputs"]["molecules"].numpy(), sample["data_sample"]["targets"]
        assert values[1] == 2
        vector = values[[2, 3, 0]]
        if np.isfinite(vector).all():
            assert vector.tolist() == pytest.approx((rows[1, 1:] - rows[0, 1:]).tolist(), rel=1e-4, abs=1e-4)
            assert np.abs(vector[:2]).max() > 1e-3


def test_shuffled_targets_are_those_of_other_molecules(tmp_path):
    table = "file,gap (meV)\n" + "".join(f"{i}.xyz,{i}\n" for i in range(10))
    data = MoleculeFolder(write(tmp_path, table), "train", tested=0.2)
    before = [data.sample(0, i)["targets"].item() for i in range(len(data))]
    data.shuffle_labels()
    after = [data.sample(0, i)["targets"].item() for i in range(len(data))]
    assert sorted(after) == sorted(before)
    assert after != before


def test_parts_of_a_vector_are_reported(tmp_path):
    write(tmp_path, "file,d_x (D),d_y (D),d_z (D)\n" + "".join(f"{i}.xyz,1,2,3\n" for i in range(10)))
    MoleculeFolder(tmp_path, targets=["d_y (D)", "d_z (D)", "d_x (D)"])
    with pytest.warns(UserWarning, match=r"of the vector or tensor of d_x \(D\), d_z \(D\), other components are"):
        MoleculeFolder(tmp_path, targets=["d_x (D)", "d_z (D)"])


def test_a_table_of_one_row_has_nothing_to_test_on(tmp_path):
    write(tmp_path, "file,E (eV)\n0.xyz,1\n")
    with pytest.raises(DataError, match="expected 2 rows or more, .* got 1. Add rows, or a column split"):
        MoleculeFolder(tmp_path)


def test_peek_describes_the_table_and_its_files(tmp_path):
    write(tmp_path, TABLE + "broken.xyz,1,2\nmissing.xyz,1,2\n")
    (tmp_path / "broken.xyz").write_text("3\n\nC 0 0 0\n")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "a.sdf").write_text("")
    description = describe(tmp_path, 3)
    assert description == describe(tmp_path / "targets.csv", 3) | dict(bytes=description["bytes"])
    assert description["molecules"] == sum(description["split"].values()) == 12
    assert list(description["split"]) == ["train", "val", "test"]
    assert (description["atoms"], description["elements"]) == ([1, 10], dict(H=55))
    assert description["means_of_targets"]["gap (meV)"] == pytest.approx((50 + 2) / 12, rel=1e-4)
    assert description["unknown_targets"] == {"gap (meV)": 0, "score": 1}
    unread, unlisted = description["odd"]
    assert unread.startswith("2 of 12 files cannot be read: ")
    assert unlisted == "files of molecules that are not in the table: 1"
    assert len(description["first"]) == 3
    assert "gap (meV)" in description["first"][0]


def test_targets_of_files_that_cannot_be_read_are_left_out_with_skip_bad(tmp_path):
    write(
        tmp_path, "file,split,E (eV)\n" + "".join(f"{i}.xyz,train,{i}\n" for i in range(10)) + "gone.xyz,train,1000\n"
    )
    data = MoleculeFolder(tmp_path, "train", holdout=0.0, val_is_test=True, transforms=[dict(type="PackAtoms")])
    with pytest.raises(DataError, match="gone.xyz is missing, which .*targets.csv names"):
        target_table(data)
    data.skip_bad = True
    table = target_table(data)
    assert sorted(table.targets[:, 0].tolist()) == list(range(10))
    assert table.composition is not None
    assert len(table.composition) == 10
    lengths, bad = token_lengths(load(CONFIGS / "custom_molecules.py"), data, 8)
    assert lengths.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, -1, -1, -1]
    assert list(map(str, bad)) == [str(tmp_path / name) for name in ("8.xyz", "9.xyz", "gone.xyz")]
    data.skip_bad = False
    with pytest.raises(DataError, match="gone.xyz is missing"):
        data.lengths()
    data.skip_bad = True
    for i in range(10):
        (tmp_path / f"{i}.xyz").unlink()
    with pytest.raises(DataError, match="none of its 11 samples can be read"):
        target_table(data)


def test_peek_names_vectors(tmp_path):
    write(tmp_path, "file,d_x (D),d_y (D),d_z (D)\n" + "".join(f"{i}.xyz,1,2,{i}\n" for i in range(10)))
    assert describe(tmp_path, 1)["vectors_and_tensors"] == [["d_x (D)", "d_y (D)", "d_z (D)"]]


def test_peek_names_columns_of_text(tmp_path):
    write(tmp_path, "file,name,E (eV)\n" + "".join(f"{i}.xyz,mol{i},{i}\n" for i in range(10)))
    description = describe(tmp_path, 1)
    assert list(description["means_of_targets"]) == ["E (eV)"]
    assert description["odd"] == ["columns that are not numbers, which `targets` of a config must leave out: name"]


def test_peek_of_a_wrong_table_is_one_sentence(tmp_path):
    write(tmp_path, "file;gap\n0.xyz;1\n")
    with pytest.raises(DataError, match="must have rows and a column 'file'"):
        describe(tmp_path, 1)
