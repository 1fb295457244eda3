"""What an operation is refused with."""

from collections.abc import Callable

import pytest

from coordinator.base.refusal import Refused


def refused(operation: Callable[..., object], *arguments: object, **named: object) -> Refused:
    """The refusal, for its code, its details and its remedy."""
    with pytest.raises(Refused) as caught:
        operation(*arguments, **named)
    return caught.value
