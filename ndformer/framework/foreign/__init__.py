"""The gate for files from elsewhere: nothing in them runs, nothing they claim is believed before it is checked."""

from ndformer.framework.foreign.files import check_size, content, inside, opened, regular, text
from ndformer.framework.foreign.plain import image, plain_json, plain_yaml
from ndformer.framework.foreign.words import printable

__all__ = ["check_size", "content", "image", "inside", "opened", "plain_json", "plain_yaml"]
__all__ += ["printable", "regular", "text"]
