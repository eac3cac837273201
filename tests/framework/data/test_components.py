"""Vectors and tensors among targets: recognized by name, and rotated."""

import numpy as np
import pytest

from ndformer.framework.data.components import TENSOR, groups, incomplete, rotate

VECTOR_NAMES = ["dipole_x (D)", "dipole_y (D)", "dipole_z (D)"]
TENSOR_NAMES = [f"alpha {component}" for component in TENSOR]
PARTS = ["box_x (m)", "box_y (m)", "dipole_x (e A)"]
OTHERS = ["gap (meV)", "x", "xx (m)", "index", *PARTS]


@pytest.mark.parametrize("seed", range(20))
def test_components_are_recognized_in_any_order(seed):
    names = np.random.default_rng(seed).permutation(VECTOR_NAMES + TENSOR_NAMES + OTHERS).tolist()
    vector, tensor = ([names.index(name) for name in group] for group in (VECTOR_NAMES, TENSOR_NAMES))
    assert sorted(groups(names)) == sorted([vector, tensor])
    assert sorted(incomplete(names)) == sorted(PARTS)


@pytest.mark.parametrize("pattern", ["Dipole_{}", "d.{}", "d-{} (D)", "mu {}(D)", "E {}  (V)"])
@pytest.mark.parametrize("components", ["xyz", "XYZ"])
def test_components_are_recognized_in_the_usual_spellings(pattern, components):
    assert groups([pattern.format(component) for component in components]) == [[0, 1, 2]]


@pytest.mark.parametrize("seed", range(3))
def test_rotated_targets_are_those_of_rotated_points(seed):
    """A vector and a tensor of points, computed before and after the points are rotated, by loops."""
    rng = np.random.default_rng(seed)
    points, turn = rng.standard_normal((5, 3)), np.linalg.qr(rng.standard_normal((3, 3)))[0]

    def targets(points: np.ndarray) -> np.ndarray:
        values = [sum(k * point["xyz".index(c)] for k, point in enumerate(points)) for c in "xyz"]
        values.append(7)
        for a, b in TENSOR:
            values.append(sum(k * point["xyz".index(a)] * point["xyz".index(b)] for k, point in enumerate(points)))
        return np.array(values)

    named = groups([*VECTOR_NAMES, "gap (meV)", *TENSOR_NAMES])
    before = targets(points)
    assert np.allclose(rotate(before, named, turn), targets(points @ turn.T), rtol=1e-12, atol=1e-12)
    assert np.array_equal(before, targets(points))  # not changed in place
    assert not np.allclose(before[:3], targets(points @ turn.T)[:3], atol=0.1)


def test_a_vector_with_an_unknown_component_is_unknown_after_a_rotation():
    values = np.array([1.0, np.nan, 2.0, 3.0])
    rotated = rotate(values, [[0, 1, 2]], np.eye(3)[[1, 2, 0]])
    assert np.isnan(rotated[:3]).all()
    assert rotated[3] == 3


def test_nine_components_are_rotated_as_a_tensor_that_may_be_not_symmetric():
    rng = np.random.default_rng(0)
    order = rng.permutation(9)
    names = [f"shield_{'xyz'[k // 3]}{'xyz'[k % 3]} (ppm)" for k in order]
    tensor, turn = rng.standard_normal((3, 3)), np.linalg.qr(rng.standard_normal((3, 3)))[0]
    (group,) = groups(names)
    rotated = rotate(tensor.ravel()[order], [group], turn)
    by_hand = [sum(turn[k // 3, i] * tensor[i, j] * turn[k % 3, j] for i in range(3) for j in range(3)) for k in order]
    assert np.allclose(rotated, by_hand, rtol=1e-12)
    assert incomplete(names) == []


def test_a_component_more_than_six_is_reported():
    names = [*TENSOR_NAMES, "alpha yx"]
    assert groups(names) == [list(range(6))]
    assert incomplete(names) == ["alpha yx"]


def test_names_that_differ_in_case_alone_are_two_vectors():
    names = ["D_x", "d_x", "D_y", "d_y", "D_z", "d_z"]
    assert groups(names) == [[0, 2, 4], [1, 3, 5]]
