"""Maps of attention over the picture that they are of."""

from typing import Any

import numpy as np

from ndformer.framework.pictures.figures import Panels, heat_maps


def test_attention_lies_over_the_photo_and_terms_do_not():
    rng = np.random.default_rng(0)
    shares, terms = rng.random((1, 2, 4, 4)), rng.normal(size=(1, 2, 4, 4))
    photo = rng.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    blocks = [Panels("semantic", terms, "signed"), Panels("attention", shares, "share")]
    figure = heat_maps("a photo", blocks, ["layer 1"], ["head 1", "head 2"], [[None, None]], picture=photo)
    images: list[Any] = [axis.images for axis in figure.axes if axis.images]
    shown = [[image.get_array().shape for image in some] for some in images]
    assert shown.count([(32, 32), (4, 4)]) == 2  # grey, and the shares over it
    over = next(some for some in images if len(some) == 2)
    grey, share = over
    np.testing.assert_allclose(grey.get_array(), photo.mean(2) * 0.6 + 70)
    assert grey.get_extent() == [-0.5, 3.5, 3.5, -0.5]
    alpha = np.asarray(share.get_alpha())
    assert alpha.argmax() == shares[0, 0].argmax()
    plain = heat_maps("none", blocks[1:], ["layer 1"], ["head 1", "head 2"], [[None, None]])
    assert all(len(axis.images) == 1 for axis in plain.axes if axis.images)
