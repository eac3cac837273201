"""docs/results/gallery.md: every encoding with its picture; `python -m tests.docs.test_gallery` writes it."""

import re

from ndformer.framework.registry import ENCODINGS
from tests.docs import made

PAGE = "docs/results/gallery.md"


def gallery() -> str:
    """Return a section per encoding, in the order of docs/reference/encodings.md."""
    return "\n" + "".join(
        f"## {name}\n\n[{name}](../{section}): {words}.\n\n![{name}](../images/{name}.png)\n\n"
        for name, (section, words) in made.encodings().items()
    )


def test_it_is_made_of_the_table_of_encodings() -> None:
    assert made.part(PAGE, "gallery") == gallery(), "`python -m tests.docs.test_gallery` writes it anew"


def test_every_registered_encoding_hangs_there_with_its_picture() -> None:
    ENCODINGS.get("NoPE")  # finds them all
    shown = re.findall(r"!\[(\w+)\]\((.+?)\)", made.part(PAGE, "gallery"))
    assert {name for name, _ in shown} == set(ENCODINGS.module_dict)
    assert all((made.ROOT / "docs" / "results" / file).is_file() for _, file in shown)


if __name__ == "__main__":
    made.rewrite(PAGE, "gallery", gallery())
