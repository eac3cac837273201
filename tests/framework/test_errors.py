"""Errors that are sentences: a label that there is no class for."""

import numpy as np
import pytest
import torch

from ndformer.framework.errors import DataError, check_labels, no_class


@pytest.mark.parametrize(
    "labels, wrong",
    [
        (np.array([0, 2, 3, -1]), "3"),
        (np.array([[1, -1], [9, 0]]), "-1"),
        (np.array([1, 2**64 - 1], np.uint64), str(2**64 - 1)),
        (torch.tensor([0, 7]), "7"),
    ],
)
def test_a_label_without_a_class_is_one_sentence(labels, wrong):
    sentence = f"x.npy has the label {wrong}, but there are 3 classes, 0 to 2: get it again"
    with pytest.raises(DataError) as caught:
        check_labels(labels, 3, "x.npy", "get it again")
    assert str(caught.value) == str(no_class("x.npy", wrong, 3, "get it again")) == sentence


@pytest.mark.parametrize("labels", [np.array([0, 1, 2]), np.empty(0, np.int64), torch.tensor([[2], [0]])])
def test_labels_that_all_have_one_pass(labels):
    check_labels(labels, 3, "x.npy", "get it again")
