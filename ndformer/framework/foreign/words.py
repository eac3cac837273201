"""Text of others, fit to be printed: no escape sequences, no line breaks that forge lines."""


def printable(text: object) -> str:
    """The same text, with all that is no visible character or space written as an escape: \\x1b, \\n, \\u202e."""
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in str(text))
