"""Constants are copied to a device once, without fake or traced tensors."""

import copy
import pickle

import torch
from torch._subclasses import FakeTensorMode

from ndformer.framework.system.devices import Constant


def test_it_is_the_same_tensor_each_time_one_for_each_type() -> None:
    constant = Constant([0.1, 0.2])
    like = torch.zeros(1)
    assert constant(like) is constant(like)
    assert constant(like.double()).dtype == torch.float64
    assert constant(like.double()).tolist() == [0.1, 0.2]
    assert Constant([[1, 2]])(like).dtype == torch.int64


def test_what_is_made_in_inference_mode_can_be_trained_with() -> None:
    constant, weight = Constant([2.0, 3.0]), torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        constant(torch.zeros(1))
    (weight * constant(weight)).sum().backward()
    assert weight.grad is not None
    assert weight.grad.tolist() == [2, 3]


def test_nothing_fake_and_nothing_traced_is_kept() -> None:
    constant = Constant([2.0])
    with FakeTensorMode():
        constant(torch.zeros(1))
    assert not constant.tensors
    compiled = torch.compile(lambda x: x * constant(x), backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == 2
    assert constant(torch.ones(1)).item() == 2


def test_copies_have_the_numbers_and_no_tensors() -> None:
    constant = Constant([2.0])
    constant(torch.zeros(1))
    for other in (copy.deepcopy(constant), pickle.loads(pickle.dumps(constant))):
        assert (other.values, other.tensors) == ([2.0], {})
