"""The dense head: known pixels alone have a loss, and answers stand on the pixels of the image on disk."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from ndformer.framework.errors import DataError
from ndformer.framework.heads.frame import original_grid
from ndformer.framework.losses.labels import lovasz_softmax
from ndformer.framework.registry import HEADS
from ndformer.framework.tokens import TokenSet, Where


def head(classes=3, **options):
    torch.manual_seed(0)
    neck = dict(type="SimpleFeaturePyramid", width=8, scales=(2, 1, 0.5), reduced=True)
    return HEADS.create(dict(type="Segmenter", classes=classes, neck=neck, patch=8, **options), dim=16)


def tokens(rows=3, columns=5, batch=1):
    axes = [torch.arange(float(n)) for n in (rows, columns)]
    features = torch.randn(batch, rows * columns, 16, generator=torch.Generator().manual_seed(0))
    return TokenSet(features, Where(torch.cartesian_prod(*axes)[None], grid=(rows, columns)))


def test_the_loss_is_the_mean_over_known_pixels():
    own, given = head(), tokens()
    masks = torch.full((1, 24, 40), -1)
    masks[0, 3, 7], masks[0, 20, 31] = 1, 2
    logits = F.interpolate(own(given), (24, 40), mode="bilinear", align_corners=False)[0].log_softmax(0)
    expected = -(logits[1, 3, 7] + logits[2, 20, 31]) / 2
    torch.testing.assert_close(own.loss(given, masks)["loss"], expected)
    more = head(lovasz=0.5).loss(given, masks)
    known = torch.stack([logits[:, 3, 7], logits[:, 20, 31]]).exp()
    torch.testing.assert_close(more["loss"], expected + 0.5 * lovasz_softmax(known, torch.tensor([1, 2])))
    torch.testing.assert_close(more["cross_entropy"] + more["lovasz"], more["loss"].detach())


def test_a_batch_in_which_nothing_is_known_has_a_loss_of_0_and_gradients():
    own = head()
    loss = own.loss(tokens(), torch.full((1, 24, 40), -1))["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or torch.isfinite(p.grad).all() for p in own.parameters())


def test_a_class_beyond_the_head_s_is_one_sentence():
    with pytest.raises(
        DataError, match=r"a\.jpg has the label 3, but there are 3 classes, 0 to 2: give the head as many"
    ):
        head().targets([dict(mask=torch.full((8, 8), 3), path="a.jpg")], torch.device("cpu"))


def test_an_odd_last_column_does_not_move_coarse_maps():
    own, whole = head(), tokens(3, 11)
    inner = TokenSet(whole.features.view(1, 3, 11, 16)[:, :, :10].flatten(1, 2), tokens(3, 10).where)
    torch.testing.assert_close(own(whole)[..., :16], own(inner)[..., :16])


def test_an_image_of_one_column_is_answered_at_its_finest_scale():
    neck = dict(type="SimpleFeaturePyramid", width=8, scales=(0.5, 1), reduced=True)
    own = HEADS.create(dict(type="Segmenter", classes=3, neck=neck, patch=8), dim=16)
    (answer,) = own.predict(tokens(4, 1), [{}])
    assert answer.predicted.shape == (32, 8)


def test_answers_come_at_the_input_s_size_without_a_frame():
    own, given = head(), tokens()
    (found,) = own.predict(given, [{}])
    expected = F.interpolate(own(given), (24, 40), mode="bilinear", align_corners=False)[0].argmax(0)
    assert torch.equal(found.predicted.long(), expected)
    assert (found.predicted.dtype, found.classes) == (torch.uint8, 3)


def test_answers_of_coarse_maps_end_with_the_input():
    neck = dict(type="SimpleFeaturePyramid", width=8, scales=(0.5,), reduced=True)
    own, given = HEADS.create(dict(type="Segmenter", classes=3, neck=neck, patch=8), dim=16), tokens()
    (answer,) = own.predict(given, [{}])
    expected = F.interpolate(own(given), scale_factor=16, mode="bilinear", align_corners=False)[0].argmax(0)
    assert torch.equal(answer.predicted.long(), expected[:24, :40])


@pytest.mark.parametrize("mirrored", [False, True])
def test_answers_stand_on_the_pixels_of_the_image_on_disk(mirrored):
    """A field with one class per half of the input, and an image of which the input shows a shrunken piece."""
    own = head(2)
    own.forward = lambda given: torch.stack([torch.ones(6, 10), 2.0 * (torch.arange(10) >= 5).expand(6, 10)])[None]
    scale, offset = (-3.0, 70.0) if mirrored else (3.0, -20.0)
    sample = dict(size=(50, 90), frame=np.array([scale, 3.0, offset, 0.0]))
    predicted = own.predict(tokens(), [sample])[0].predicted.numpy()
    assert predicted.shape == (50, 90)
    column = (np.arange(90) + 0.5 - offset) / scale  # in pixels of the input, 40 wide: the border is at 20
    sure = np.abs(column - 20) > 2
    assert np.array_equal(predicted[:, sure], np.broadcast_to((column > 20)[sure], (50, sure.sum())))


def test_classes_above_255_are_predicted():
    own = head(300)
    own.forward = lambda given: F.one_hot(torch.full((1, 6, 10), 299), 300).movedim(-1, 1).float()
    (answer,) = own.predict(tokens(), [{}])
    assert (answer.predicted.long() == 299).all()  # a number would be cast to the 8 bits


def test_pixels_of_the_input_follow_the_frame():
    grid = original_grid(dict(size=(2, 3), frame=(2.0, 1.0, 1.0, -1.0)), (4, 8), torch.device("cpu"))
    for y in range(2):
        for x in range(3):
            inside = ((x + 0.5 - 1) / 2, (y + 0.5 + 1) / 1)
            expected = (2 * inside[0] / 8 - 1, 2 * inside[1] / 4 - 1)
            assert grid[y, x].tolist() == pytest.approx(expected)


def test_a_small_head_learns_by_heart():
    own, given = head(2), tokens()
    masks = torch.zeros(1, 24, 40, dtype=torch.int64)
    masks[:, 8:, 12:30] = 1
    optimizer = torch.optim.Adam(own.parameters(), 0.02)
    losses = []
    for _ in range(60):
        losses.append(own.loss(given, masks)["loss"])
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1].item() < 0.5 * math.log(2)
    assert (own.predict(given, [{}])[0].predicted == masks[0]).float().mean() > 0.9


def test_one_long_row_is_answered_in_parts(monkeypatch):
    """Issue 44.23: the scores of all classes at once took 150 times the memory of the picture."""
    sizes, sample_grid = [], F.grid_sample

    def counted(x, grid, **more):
        sizes.append(grid[..., 0].numel())
        return sample_grid(x, grid, **more)

    monkeypatch.setattr(F, "grid_sample", counted)
    (found,) = head().predict(tokens(), [dict(frame=[1.0, 1.0, 0.0, 0.0], size=(1, 100_000))])
    assert found.predicted.shape == (1, 100_000)
    assert max(sizes) <= 2**16
