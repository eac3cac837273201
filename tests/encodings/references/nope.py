"""NoPE: attention without positions."""

from tests.encodings.references.base import Reference


class NoPE(Reference):
    pass
