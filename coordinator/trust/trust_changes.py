"""Wishes for the next trust bundle (ceremony.py) as the JSON in which `holdfastctl` sends them. Pure."""

import base64
import binascii
from collections.abc import Callable, Mapping, Sequence

from coordinator.base import requests
from coordinator.base.refusal import Code, Refused
from coordinator.base.requests import BodyMember, is_text
from coordinator.trust.bundle_content import CONFIG_SCOPES
from coordinator.trust.ceremony import Add, PublicKey, RaiseEpoch, Remove, Restore, Retire, Revoke, Threshold, Wish
from snapshot.bundle import CONFIG, ROOT
from snapshot.identifiers import is_integer, is_key_id, parse_time
from snapshot.signature import ALGORITHMS

MOST = 64
DEFAULT_LIFETIME_S = {ROOT: 20 * 365 * 86_400, CONFIG: 365 * 86_400}

_PURPOSE = BodyMember(lambda value: value in (ROOT, CONFIG))
_KEY = {"key_id": BodyMember(is_key_id)}
_NUMBER = BodyMember(is_integer)
_FORMS: dict[str, dict[str, BodyMember]] = {
    "add": {
        "purpose": _PURPOSE,
        "algorithm": BodyMember(lambda value: value in ALGORITHMS),
        "public_key": BodyMember(is_text(4096)),
        "not_after": BodyMember(is_text(32), required=False),
        "scope_types": BodyMember(lambda value: isinstance(value, list), required=False),
    },
    "retire": {**_KEY, "early": BodyMember(lambda value: isinstance(value, bool), required=False)},
    "remove": _KEY,
    "revoke": _KEY,
    "threshold": {"purpose": _PURPOSE, "number": _NUMBER},
    "raise_epoch": {"to": BodyMember(is_integer, required=False)},
    "restore": {"category": BodyMember(is_text(64)), "value": BodyMember(is_text(320))},
}


def parse(values: object, now: float) -> list[Wish]:
    """From a list of objects, each with a member `wish` that names it; Refused for anything else."""
    if not isinstance(values, list) or len(values) > MOST:
        raise Refused(Code.BAD_REQUEST, f"wishes are a list of at most {MOST}")
    return [_wish(value, now) for value in values]


def add(purpose: str, algorithm: str, public_key: bytes, **more: object) -> dict[str, object]:
    """The JSON of a new key; `more`: `not_after` as a time, `scope_types`."""
    encoded = base64.b64encode(public_key).decode()
    return {"wish": "add", "purpose": purpose, "algorithm": algorithm, "public_key": encoded, **more}


def _wish(value: object, now: float) -> Wish:
    name = value.get("wish") if isinstance(value, Mapping) else None
    if not isinstance(value, Mapping) or not isinstance(name, str) or name not in _FORMS:
        raise Refused(Code.BAD_REQUEST, "a wish without a known name", remedy=", ".join(_FORMS))
    members = {key: each for key, each in value.items() if key != "wish"}
    requests.closed(members, _FORMS[name])
    try:
        return _MAKERS[name](members, now)
    except (ValueError, binascii.Error) as error:
        raise Refused(Code.BAD_REQUEST, f"{name}: {error}") from error


def _add(members: Mapping[str, object], now: float) -> Wish:
    key = PublicKey(str(members["algorithm"]), base64.b64decode(str(members["public_key"]), validate=True))
    purpose = str(members["purpose"])
    end = members.get("not_after")
    not_after = int(now) + DEFAULT_LIFETIME_S[purpose] if end is None else parse_time(end)
    scopes = members.get("scope_types", list(CONFIG_SCOPES))
    return Add(key, purpose, not_after, tuple(map(str, scopes if isinstance(scopes, Sequence) else ())))


def _epoch(members: Mapping[str, object], _now: float) -> Wish:
    to = members.get("to")
    return RaiseEpoch(to if isinstance(to, int) else None)


_MAKERS: dict[str, Callable[[Mapping[str, object], float], Wish]] = {
    "add": _add,
    "retire": lambda members, _: Retire(str(members["key_id"]), bool(members.get("early", False))),
    "remove": lambda members, _: Remove(str(members["key_id"])),
    "revoke": lambda members, _: Revoke(str(members["key_id"])),
    "threshold": lambda members, _: Threshold(str(members["purpose"]), int(str(members["number"]))),
    "raise_epoch": _epoch,
    "restore": lambda members, _: Restore(str(members["category"]), str(members["value"])),
}
