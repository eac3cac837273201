"""NoPE: no position anywhere."""

from tests.encodings.references.base import Reference

CASES = {
    "NoPE": dict(type="NoPE"),
}
REFERENCES = {"NoPE": Reference}
