"""Safe readers of untrusted files: no code in them runs, claimed sizes are checked before memory is allocated."""

from ndformer.framework.foreign.arrays import array, arrays
from ndformer.framework.foreign.decompress import archive, frame_size, gunzipped, has_zip_entry, inflated
from ndformer.framework.foreign.files import (
    LINE,
    below,
    check_size,
    content,
    inside,
    limit,
    short_lines,
    size_from,
    text,
    text_rows,
)
from ndformer.framework.foreign.hdf5 import Table, notes, read_tables, tables
from ndformer.framework.foreign.images import PICTURES, check_pixels, image, image_size, normalized_image, picture
from ndformer.framework.foreign.mounts import (
    is_dir,
    is_file,
    local,
    mapped_bytes,
    mount,
    names_in,
    opened,
    regular,
    status,
)
from ndformer.framework.foreign.pickles import plain_pickle
from ndformer.framework.foreign.plain import lines, parsed_json, plain_json, plain_xml, plain_yaml, words
from ndformer.framework.foreign.printable import cell, plain_streams, printable, rewritable, single_line
from ndformer.framework.foreign.row_width import conflicting_row_width, guess_row_width
from ndformer.framework.foreign.rows import json_rows

__all__ = [
    "LINE",
    "PICTURES",
    "Table",
    "archive",
    "array",
    "arrays",
    "below",
    "cell",
    "check_pixels",
    "check_size",
    "conflicting_row_width",
    "content",
    "frame_size",
    "guess_row_width",
    "gunzipped",
    "has_zip_entry",
    "image",
    "image_size",
    "inflated",
    "inside",
    "is_dir",
    "is_file",
    "json_rows",
    "limit",
    "lines",
    "local",
    "mapped_bytes",
    "mount",
    "names_in",
    "normalized_image",
    "notes",
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
    "rewritable",
    "short_lines",
    "single_line",
    "size_from",
    "status",
    "tables",
    "text",
    "text_rows",
    "words",
]
