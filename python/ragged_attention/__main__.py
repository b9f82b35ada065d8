"""`python -m ragged_attention` is the command `ragged`."""

import sys

from ragged_attention import _ext


def main() -> int:
    return _ext.command(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
