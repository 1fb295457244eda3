"""Programs for the harness to run: python -m tests.benchmarks.tiny well|badly|as_another|silently."""

import sys

from benchmarks.figures import note

if sys.argv[1] == "as_another":
    note("other/one", "ms", [1.0])
elif sys.argv[1] != "silently":
    note(f"{sys.argv[1]}/one", "ms", [1.0, 3.0, 2.0], floor=[1.0, 1.0, 1.0])
sys.exit(3 if sys.argv[1] == "badly" else 0)
