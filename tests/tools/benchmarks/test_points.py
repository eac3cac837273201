"""tools/benchmarks/points.py: the surface that it makes, and that it ends with a table."""

import json

import torch

from tools.benchmarks import points as benchmark_points


def test_the_surface_has_one_point_in_a_voxel():
    r = benchmark_points.surface(2000)
    voxels = torch.unique((r / benchmark_points.VOXEL).floor(), dim=0)
    assert 1000 < len(r) == len(voxels) <= 2000


def test_a_table_beside_no_encoding(capsys, tmp_path):
    few = ["--points", "60", "--encodings", "PaPE(m=4)", "--repeats", "1", "--cpe", "none"]
    benchmark_points.main([*few, "--amp", "--out", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["none", "PaPE(m=4)"]
    assert "1.00 x none" in lines[1]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    assert sorted(p.suffix for p in tmp_path.glob(f"points_{device}_none_bf16.*")) == [".json", ".png"]
    written = json.loads((tmp_path / f"points_{device}_none_bf16.json").read_text())
    assert "forward, bf16" in written["title"]
    assert list(written["rows"]) == ["none", "PaPE(m=4)"]
    assert ("mib" in written["rows"]["none"]) == (device == "cuda")
