"""The gate for files from elsewhere: nothing in them runs, nothing they claim is believed before it is checked."""

from ndformer.framework.foreign.arrays import array, arrays
from ndformer.framework.foreign.decompress import archive, frame_size, gunzipped, has_zip_entry, inflated
from ndformer.framework.foreign.files import (
    LINE,
    below,
    check_size,
    content,
    inside,
    limit,
    opened,
    regular,
    short_lines,
    size_from,
    text,
    text_rows,
)
from ndformer.framework.foreign.hdf5 import Table, notes, read_tables, tables
from ndformer.framework.foreign.images import PICTURES, as_seen, check_pixels, image, picture, size_of
from ndformer.framework.foreign.pickles import plain_pickle
from ndformer.framework.foreign.plain import lines, parsed_json, plain_json, plain_xml, plain_yaml, words_of
from ndformer.framework.foreign.printable import cell, one_line, plain_streams, printable, rewritable
from ndformer.framework.foreign.row_width import repeating, surely_other
from ndformer.framework.foreign.rows import json_rows

__all__ = [
    "LINE",
    "PICTURES",
    "Table",
    "archive",
    "array",
    "arrays",
    "as_seen",
    "below",
    "cell",
    "check_pixels",
    "check_size",
    "content",
    "frame_size",
    "gunzipped",
    "has_zip_entry",
    "image",
    "inflated",
    "inside",
    "json_rows",
    "limit",
    "lines",
    "notes",
    "one_line",
    "opened",
    "parsed_json",
    "picture",
    "plain_json",
    "plain_pickle",
    "plain_streams",
    "plain_xml",
    "plain_yaml",
    "printable",
    "read_tables",
    "regular",
    "repeating",
    "rewritable",
    "short_lines",
    "size_from",
    "size_of",
    "surely_other",
    "tables",
    "text",
    "text_rows",
    "words_of",
]
