"""`holdfastctl rotate`: the life of a key, one bundle a step (rules S36): add, both sign, retire, remove."""

from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

import click

from coordinator.base.refusal import Code, Refused
from coordinator.keys import keystore
from holdfast.ctl import trust
from holdfast.ctl.signing import Signing, bundle_options, carry_out, draft, finish_with_key, wishes
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator
from holdfast.terminal.shown import say
from snapshot.bundle import CONFIG, ROOT
from snapshot.identifiers import parse_time
from snapshot.signature import ALGORITHMS, ED25519
from wire.operators.fleet_answers import Fleet
from wire.operators.trust_answers import HeldKeys, Rotation
from wire.operators.trust_messages import AddWish, RemoveWish, RetireWish, ThresholdWish


def _time(_ctx: click.Context, _param: click.Parameter, value: str | None) -> int | None:
    try:
        return None if value is None else parse_time(value)
    except ValueError:
        raise click.BadParameter(f"{value!r}: write YYYY-MM-DDTHH:MM:SSZ") from None


@click.group()
def rotate() -> None:
    """Keys that come and keys that go. Each step is a trust bundle, which root keys sign."""


@rotate.command()
@asks_the_coordinator
def status(asked: CoordinatorClient) -> None:
    """Every key of the bundle, and what comes next for it and when."""
    keys, nodes = asked.get(HeldKeys, "keys"), asked.get(Fleet, "fleet").versions.get("trust_bundle", {})
    present = asked.get(Rotation, "rotation")
    more = {"directory": keys.directory, "held": [asdict(key) for key in keys.keys], "nodes": nodes}
    asked.show({**asdict(present), **more}, lambda _: _render(present, keys, nodes))


@rotate.command()
@click.option("--purpose", type=click.Choice([CONFIG, ROOT]), default=CONFIG, show_default=True)
@click.option("--public-key", type=click.Path(path_type=Path, exists=True), help="Of a key made elsewhere (PEM).")
@click.option("--new-key-to", type=click.Path(path_type=Path),
              help="Without --public-key: the directory that a new key is made in.  [default: of a config key, where"
              " the coordinator looks for them]")  # fmt: skip
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=ED25519, show_default=True)
@click.option("--not-after", callback=_time, metavar="TIME",
              help="Its end, YYYY-MM-DDTHH:MM:SSZ.  [default: config 1 year, root 20]")  # fmt: skip
@click.option("--scope-type", "scope_types", multiple=True, help="Of a config key: sign only this, and further ones.")
@bundle_options
@asks_the_coordinator
def add(
    asked: CoordinatorClient,
    purpose: str,
    public_key: Path | None,
    new_key_to: Path | None,
    algorithm: str,
    not_after: int | None,
    scope_types: tuple[str, ...],
    signing: Signing,
) -> None:
    """Announce a new key. From then on the coordinator signs with it and with the old one."""
    more = partial(AddWish, not_after=not_after, scope_types=scope_types or None)
    if public_key is not None:
        carry_out(asked, signing, wishes(more(purpose, algorithm, trust.read_public(public_key))))
        return
    directory = new_key_to or _keys_directory(asked, purpose)
    key = keystore.new_key(algorithm)
    request = draft(asked, signing, wishes(more(purpose, key.algorithm, key.public_key)))
    finish_with_key(asked, signing, request, purpose, key, directory)


@rotate.command()
@click.argument("key_id")
@click.option("--early", is_flag=True, help="Before the date that `rotate status` gives.")
@bundle_options
@asks_the_coordinator
def retire(asked: CoordinatorClient, key_id: str, early: bool, signing: Signing) -> None:
    """An old key signs no more. What it has signed stays good for the time of key rollout.

    Not before the date that `rotate status` gives: until then there are documents that no other key has signed. A key
    in wrong hands does not retire: `revoke key`.
    """
    found = whole_key_id(asked, key_id)
    _goes_on_without(asked, found)
    carry_out(asked, signing, wishes(RetireWish(found, early)))


@rotate.command()
@click.argument("key_id")
@bundle_options
@asks_the_coordinator
def remove(asked: CoordinatorClient, key_id: str, signing: Signing) -> None:
    """A key whose rollout is over leaves the bundle."""
    carry_out(asked, signing, wishes(RemoveWish(whole_key_id(asked, key_id))))


@rotate.command()
@click.argument("purpose", type=click.Choice([CONFIG, ROOT]))
@click.argument("number", type=click.IntRange(1, 16))
@bundle_options
@asks_the_coordinator
def threshold(asked: CoordinatorClient, purpose: str, number: int, signing: Signing) -> None:
    """How many keys of a purpose have to sign."""
    carry_out(asked, signing, wishes(ThresholdWish(purpose, number)))


def keys_directory(asked: CoordinatorClient) -> Path:
    """Where the coordinator looks for config keys: its own configuration says so, whichever that is."""
    return Path(asked.get(HeldKeys, "keys").directory)


def _keys_directory(asked: CoordinatorClient, purpose: str) -> Path:
    if purpose == ROOT:
        remedy = "name where this one is to lie, --new-key-to DIRECTORY, or make it there and give its --public-key"
        raise Refused(Code.BAD_REQUEST, "a root key is not kept with the coordinator", remedy=remedy)
    return keys_directory(asked)


def whole_key_id(asked: CoordinatorClient, beginning: str) -> str:
    """The key of the bundle whose id begins so, with or without `sha256:`."""
    wanted = beginning.removeprefix("sha256:")
    known = [key.key_id for key in asked.get(Rotation, "rotation").keys]
    found = [key_id for key_id in known if wanted and key_id.removeprefix("sha256:").startswith(wanted)]
    if len(found) != 1:
        code, what = (Code.BAD_REQUEST, f"{len(found)} keys") if found else (Code.NOT_FOUND, "no key")
        raise Refused(code, f"{what} of the bundle begins with {beginning}", remedy="`rotate status` lists them")
    return found[0]


def _goes_on_without(asked: CoordinatorClient, key_id: str) -> None:
    """This coordinator holds another config key that signs all that the old one does."""
    held = {key.key_id: key.faults for key in asked.get(HeldKeys, "keys").keys}
    others = [faults for other, faults in held.items() if other != key_id]
    for scope, fault in held.get(key_id, {}).items():
        if fault is None and all(faults[scope] is not None for faults in others):
            remedy = "put its successor's file into the keys directory, and reload the coordinator"
            raise Refused(Code.NO_SIGNER, f"without {key_id} this coordinator could not sign {scope}", remedy=remedy)


def _render(present: Rotation, held: HeldKeys, nodes: Mapping[str, int]) -> None:
    trust.render(present)
    say()
    for key in held.keys:
        faults = sorted({fault for fault in key.faults.values() if fault})
        signs = sorted(scope for scope, fault in key.faults.items() if not fault)
        what = f"signs {'everything' if not faults else ', '.join(signs) or 'nothing'}"
        say(f"this coordinator holds {key.key_id}: {what}{' (' + ', '.join(faults) + ')' if faults else ''}")
    if not held.keys:
        say(f"this coordinator holds no config key: put one into {held.directory}, and reload it")
    for version, count in nodes.items():
        say(f"nodes that hold bundle {version}: {count}")
