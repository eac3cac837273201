"""`make test` leaves out combinations of parameters and slow tests, never a test or a value of a parameter."""

import pytest

pytest_plugins = ["pytester"]

TESTS = """
import pytest

@pytest.mark.parametrize("a", range(5))
@pytest.mark.parametrize("b", "xyz")
@pytest.mark.parametrize("c", [{}, []])
def test_many(a, b, c): ...

@pytest.mark.parametrize("a", range(20))
def test_one_parameter(a): ...

@pytest.mark.parametrize("a", range(2))
@pytest.mark.parametrize("b", range(3))
def test_few(a, b): ...

@pytest.mark.slow
def test_slow(): ...
"""


def names(pytester: pytest.Pytester, *options: str) -> list[str]:
    lines = pytester.runpytest("--collect-only", "-q", "-p", "tests.conftest", *options).outlines
    return [line.partition("::")[2] for line in lines if "::" in line]


def test_each_test_and_each_value_is_in_the_everyday_run_and_the_rest_is_the_others(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_example=TESTS)
    pytester.makeini("[pytest]\nmarkers = slow")
    every, everyday, rest = names(pytester, "--all"), names(pytester), names(pytester, "--rest")
    assert len(every) == 30 + 20 + 6 + 1
    assert sorted(everyday + rest) == sorted(every)
    many = [name for name in everyday if name.startswith("test_many")]
    assert 5 <= len(many) <= 7
    assert {name[-2] for name in many} == set("01234")
    assert {name.split("-")[1] for name in many} == set("xyz")
    assert len([name for name in everyday if name.startswith("test_one_parameter")]) == 20
    assert len([name for name in everyday if name.startswith("test_few")]) == 6
    assert "test_slow" in rest
