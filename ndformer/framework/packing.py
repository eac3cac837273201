"""Packed rows as one row per sample: a backbone computes on packed tokens, heads read samples.

tokens = adapter(images)                 # one row for images of all sizes, `where.segment` is the number of the image
tokens = unpacked(backbone(tokens), samples=len(images))      # a row per image, padded to the longest
"""

import torch

from ndformer.framework.tokens import Rows, TokenSet


def unpacked(tokens: TokenSet, samples: int) -> TokenSet:
    """Return packed rows as one row for each of `samples` samples, padded to the longest; others as they are.

    Row s has the tokens of segment s, in whichever packed row they are. A GPU synchronizes once, to read the length of
    the longest sample.
    """
    segment = tokens.where.segment
    if segment is None:
        return tokens
    flat = torch.where(segment < 0, samples, segment).flatten().long()  # padding becomes one more sample
    place = torch.arange(len(flat), device=flat.device)
    starts = torch.full((samples + 1,), len(flat), device=flat.device).scatter_reduce(0, flat, place, "amin")[:samples]
    lengths = torch.zeros(samples + 1, dtype=torch.int64, device=flat.device).index_add(0, flat, torch.ones_like(flat))
    lengths = lengths[:samples]
    slot = torch.arange(int(lengths.max()), device=flat.device)
    rows = Rows(starts[:, None] + slot, slot < lengths[:, None])
    modality = None if tokens.modality is None else rows.gather(tokens.modality.flatten())
    return TokenSet(rows.gather(tokens.features.flatten(0, 1)), rows.where(tokens.where), modality)
