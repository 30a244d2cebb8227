import os
import sys

# `python -m` puts the working directory first on the path: a file random.py there would run as soon as anything imports
# `random`. This package has already been found, and its own modules do not need the path.
if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]

from streamling.cli import main

raise SystemExit(main())
