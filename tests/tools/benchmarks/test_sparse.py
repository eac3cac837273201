"""tools/benchmarks/sparse.py: its table where spconv is installed, and what it says where it is not."""

import pytest

from ndformer.framework.errors import DataError
from ndformer.framework.sparse import spconv
from tools.benchmarks import sparse as benchmark_sparse

FEW = ["--voxels", "200", "200", "--repeats", "1", "--threads", "1"]


def test_without_spconv_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spconv, "build", lambda: (None, "spconv does not import"))
    with pytest.raises(DataError, match="pip install spconv-cu120, but spconv does not import"):
        benchmark_sparse.main(FEW)


@pytest.mark.skipif(spconv.build()[0] is None, reason="no CUDA build of spconv here: pip install spconv-cu120")
def test_both_give_the_same_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    benchmark_sparse.main(FEW)
    lines = capsys.readouterr().out.splitlines()[1:]
    assert [line.rpartition(" ")[0].endswith("off") for line in lines] == [True] * 3
    assert all(float(line.rpartition(" ")[2]) < 1e-4 for line in lines)
