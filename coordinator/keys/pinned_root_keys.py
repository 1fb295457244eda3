"""Which root keys an operator has named on a coordinator's machine (`[trust]` of coordinator.toml; rules H50)."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PinnedRootKeys:
    """`threshold`: how many of them must have signed; 0: all of them."""

    key_ids: tuple[str, ...] = ()
    threshold: int = 0

    @property
    def least(self) -> int:
        return self.threshold or len(self.key_ids)
