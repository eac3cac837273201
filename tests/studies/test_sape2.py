"""Experiments of the SaPE2 paper."""

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ndformer.framework.attention import Attention, build_encoding
from ndformer.framework.attention_maps import AttentionMaps
from ndformer.framework.tokens import Where
from ndformer.lab.experiment import Cell
from ndformer.studies import find, inspection
from ndformer.studies.inspection import accuracy_moved
from ndformer.studies.sape2 import tables
from ndformer.studies.sape2.figure4 import compared
from tests.studies.test_pape import words


def test_rows_that_are_in_two_tables_share_their_runs():
    for one, other in (("ViT", "APE"), ("SaPE2 + APE", "SaPE2(K) + APE")):
        assert tables.TABLE1[one]["CIFAR10"] == tables.TABLE2[other]["top1"]
        assert tables.PAPER[one] == tables.MODES[other]


@pytest.mark.parametrize("row", [*tables.PAPER, *tables.VARIANTS])
def test_encodings_have_the_grid_of_their_set(row, tmp_path):
    cell = Cell(row, 0, "small", tmp_path / "w" / "t" / "c")
    for on, dim in ((tables.SETS["digits"], 64), (tables.SETS["signs"], 64), (tables.CIFAR["CIFAR10"], 384)):
        backbone = tables.train_encoding(cell, on).cfg.model.backbone
        parts = [backbone.encoding] if isinstance(backbone.encoding, dict) else backbone.encoding
        assert [part["grid"] for part in parts if part["type"] == "LearnableAbsolute"] in ([], [on.side])
        assert backbone.dim == dim


def test_equations_in_loops_agree_with_the_implementation(tmp_path):
    assert set(words(find("sape2:equations"), tmp_path).values()) == {"supported"}


def test_two_kinds_of_patches_are_two_regions():
    """Columns 1 and 2 are bright, 3 and 4 dark, with noise: descriptors differ only across regions."""
    torch.manual_seed(0)
    images = torch.tensor([1.0, 1.0, 0.0, 0.0]).repeat_interleave(4).expand(1, 1, 16, 16)
    encoding = build_encoding(dict(type="SaPE2"), dim=16, heads=2, position_dims=2, depth=1)
    attention = Attention(16, 2, encoding.layer(0, 1))
    axis = torch.arange(4.0)
    where = Where(torch.cartesian_prod(axis, axis)[None], grid=(4, 4))
    kinds = torch.randn(2, 16)
    x = kinds[torch.tensor([0, 0, 1, 1]).repeat(4)][None] + 1e-3 * torch.randn(1, 16, 16)
    found = compared(AttentionMaps(attention, x, where, encoding.prepare(where)), images)
    assert found["across"] > 20
    assert found["apart"] > 0  # regions are also apart in the picture
    assert found["own"] < 0  # distances are added: attention moves to the other region


def test_patches_are_permuted_as_in_a_model_with_shuffled_positions(shuffled):
    """Otherwise regions would be those of other tokens, and the control would find no difference anywhere."""
    encoding = build_encoding([dict(type="Shuffled"), dict(type="NoPE")], dim=4, heads=1, position_dims=2, depth=1)
    images = torch.rand(3, 2, 4, 6)
    patches = torch.nn.functional.unfold(images, (2, 2), stride=2).mT  # (3, 6, 8)
    where = Where(torch.zeros(1, 7, 2), grid=(2, 3))
    tokens = torch.cat([torch.zeros(3, 1, 8), patches], dim=1)
    seen = torch.nn.functional.unfold(inspection.shuffled_images(images, encoding.eval(), where), (2, 2), stride=2).mT
    assert torch.equal(seen, encoding.embed(tokens, encoding.prepare(where))[:, 1:])
    assert not torch.equal(seen, patches)
    assert torch.equal(inspection.shuffled_images(images, torch.nn.Identity(), where), images)


def test_images_are_shifted_down_and_right(monkeypatch):
    """The model predicts the row and column of the bright pixel."""
    images = torch.zeros(3, 1, 4, 4)
    for i in range(3):
        images[i, 0, 0, i] = 1
    batch = dict(inputs=dict(image=images), data_samples=[dict(label=n) for n in (5, 6, 0)])
    monkeypatch.setattr(inspection, "build_loader", lambda cfg, split: [batch])

    class Finds:
        to_device = staticmethod(lambda batch: batch)

        def __call__(self, inputs):
            return inputs["image"].flatten(1)

    found: Any = SimpleNamespace(model=Finds, settings=None)
    assert accuracy_moved(found, 1) == pytest.approx(200 / 3)  # rows 1, columns 1, 2 and 3: labels 5, 6 and 7
