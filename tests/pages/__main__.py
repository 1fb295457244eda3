"""`python -m tests.pages [--write]`."""

import sys

from tests.citations import ROOT
from tests.pages import PAGES, stale


def main() -> int:
    behind = stale()
    for path in behind:
        if "--write" in sys.argv[1:]:
            path.write_text(PAGES[path]())
        print(path.relative_to(ROOT))
    return 1 if behind and "--write" not in sys.argv[1:] else 0


sys.exit(main())
