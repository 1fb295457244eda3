"""One target under atheris: `python -m tests.fuzz.run TARGET [what libFuzzer takes]`. A finding ends the process."""

import sys

import atheris

# Only the code under test counts as new ground; it must be loaded here first.
with atheris.instrument_imports(include=["snapshot"]):
    import snapshot.reverify
    import snapshot.verify  # noqa: F401

from tests.fuzz.targets import TARGETS


def main() -> None:
    target = TARGETS[sys.argv[1]]
    atheris.Setup([sys.argv[0], *sys.argv[2:]], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
