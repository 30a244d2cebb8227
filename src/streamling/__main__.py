"""The entry point: `streamling` and `python -m streamling`."""

import os
import sys


def main() -> int:
    # the imports take a fraction of a second, and Ctrl-C may be pressed then too
    try:
        from streamling.cli import main as command

        return command()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    # `python -m` puts the working directory first on the path: a file random.py there would run as soon as anything
    # imports `random`. This package has already been found, and its own modules do not need the path.
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    raise SystemExit(main())
