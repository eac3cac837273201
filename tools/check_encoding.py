#!/usr/bin/env python
"""Check that a position encoding meets the contract: one line per requirement, exit code 0 if none fails.

    ndformer check_encoding PaPE m=8
    ndformer check_encoding window.py:Window radius=2
    ndformer check_encoding my_package.encodings:Window

NDFORMER_DEBUG=1 prints the traceback of an error.
"""

import os
import sys
import traceback
from collections.abc import Sequence

from ndformer.cli.naming import find, in_a_sentence, options
from ndformer.cli.program import new_parser
from ndformer.contract import check
from ndformer.contract.promise import error_location
from ndformer.framework.encoding.composed import build_encoding
from ndformer.framework.system.pipes import exit_on_closed_pipe


def main(arguments: Sequence[str] | None = None) -> int:
    parser = new_parser(__doc__)
    parser.add_argument("encoding", metavar="NAME | MODULE:CLASS | FILE.py:CLASS")
    parser.add_argument("options", metavar="KEY=VALUE", nargs="*", help="its options")
    args = parser.parse_args(arguments)
    debug = bool(os.environ.get("NDFORMER_DEBUG"))
    try:
        cfg = dict(type=find(args.encoding), **options(args.options))
        passed = []
        for result in check(lambda **place: build_encoding(cfg, **place)):
            print(result, flush=True)
            if debug and result.error is not None:
                traceback.print_exception(result.error)
            passed.append(result.passed)
    except Exception as error:  # a user's module may raise anything
        if debug or isinstance(error, BrokenPipeError):
            raise
        sentence = in_a_sentence(error)
        location = "" if sentence == str(error) else error_location(error)  # a message for users needs none
        print(f"check_encoding: {sentence}{location}", file=sys.stderr)
        return 1
    return 1 if False in passed else 0


if __name__ == "__main__":
    with exit_on_closed_pipe():
        sys.exit(main())
