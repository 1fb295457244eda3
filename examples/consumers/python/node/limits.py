#!/usr/bin/python3
"""A program that goes by limits.json of the Config `limits`, and takes a change of it at once.

limits.py                 says which limits hold, a line each time that they are others
limits.py --check FILE    exit 1 and a sentence where it could not go by that file
"""

import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.client import Client, HoldfastError, NotFound

AGAIN_S = 2


@dataclass(frozen=True)
class Limits:
    edition: str
    requests_per_s: int

    @classmethod
    def read(cls, data: bytes) -> "Limits":
        """ValueError for what is none."""
        value = json.loads(data)
        match value:
            case {"edition": str(edition), "requests_per_s": int(rate)} if rate > 0:
                return cls(edition, rate)
        raise ValueError(f"no limits: {value}")


OWN = Limits("its own", 1)


def main() -> None:
    if sys.argv[1:2] == ["--check"]:
        check(Path(sys.argv[2]))
        return
    held = None
    for limits in follow(Client()):
        if limits != held:
            held = limits
            print(f"{limits.edition}: at most {limits.requests_per_s} requests a second", flush=True)


def check(file: Path) -> None:
    try:
        Limits.read(file.read_bytes())
    except (OSError, ValueError) as error:
        sys.exit(f"limits.py: {error}")


def follow(client: Client) -> Iterator[Limits]:
    """As they are, and again after each change; without such a Config its own. While nobody can say, what it has."""
    while True:
        try:
            for _ in client.watch_files("limits"):
                yield Limits.read(client.file("limits", "limits.json"))
        except NotFound:
            yield OWN
        except HoldfastError as error:
            print(f"limits.py: {error}", file=sys.stderr)
        time.sleep(AGAIN_S)


if __name__ == "__main__":
    main()
