"""holdfast-coordinator whose applies begin changes, whatever the product says of it so far."""

from coordinator import run
from coordinator.api import admin_api


def main() -> None:
    admin_api.CHANGES_ARE_GUARDED = True
    run.main()
