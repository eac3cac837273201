"""The gate for files from elsewhere: nothing in them runs, nothing they claim is believed before it is checked."""

from ndformer.framework.foreign.files import check_size, content, inside, opened, regular, text
from ndformer.framework.foreign.pictures import image, picture, size_of
from ndformer.framework.foreign.plain import lines, plain_json, plain_xml, plain_yaml, words_of
from ndformer.framework.foreign.words import cell, one_line, plain_streams, printable, rewritable

__all__ = [
    "cell",
    "check_size",
    "content",
    "image",
    "inside",
    "lines",
    "one_line",
    "opened",
    "picture",
    "plain_json",
    "plain_streams",
]
__all__ += ["plain_xml", "plain_yaml", "printable", "regular", "rewritable", "size_of", "text", "words_of"]
