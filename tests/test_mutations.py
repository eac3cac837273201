"""The table of planted faults (make mutations) is of the code as it is now."""

import pytest

from tests.soak.mutations import ALL, FAULTS, ROOT, mutated


def test_each_fault_can_be_planted_and_names_tests_that_are_there() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == ALL
    for fault in FAULTS:
        text = (ROOT / "ndformer" / fault.file).read_text()
        compile(mutated(text, fault), fault.file, "exec")
        missing = [name for name in fault.tests.split() if not (ROOT / "tests" / name.partition("::")[0]).exists()]
        assert missing == [], fault.name


@pytest.mark.parametrize("text", ["", "old old"])
def test_a_line_that_has_changed_is_an_error(text: str) -> None:
    with pytest.raises(SystemExit, match="expected the old text once"):
        mutated(text, FAULTS[0]._replace(old="old"))
