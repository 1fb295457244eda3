"""A private file of a coordinator by its name: among its keys, also sealed, or else among the service's credentials."""

from collections.abc import Mapping
from pathlib import Path

from coordinator.keys import sealing, signing_key
from coordinator.keys.acting import as_owner_of


def find(name: str, directory: Path | None, environment: Mapping[str, str]) -> tuple[Path, bytes] | None:
    """Where it lies and what it holds; None where it is in neither. UnusableKeyError for one that is open to others."""
    places = [directory] if directory is not None else []
    if environment.get("CREDENTIALS_DIRECTORY"):
        places.append(Path(environment["CREDENTIALS_DIRECTORY"]))
    for place in places:
        with as_owner_of(place):
            path = place / name
            if path.exists() or path.is_symlink():
                return path, signing_key.private_bytes(path)
        if place is directory and (data := sealing.find(path)) is not None:
            return sealing.sealed_form(path), data
    return None
