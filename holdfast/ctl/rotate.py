"""`holdfastctl rotate`: the life of a key, one bundle a step (rules S36): add, both sign, retire, remove."""

from pathlib import Path
from typing import Any

import click

from coordinator.keys import keystore
from coordinator.trust import trust_changes
from holdfast.ctl import trust
from holdfast.ctl.signing import Signing, bundle_options, carry_out, drafted, finish_with_key
from holdfast.ctl.socket import REFUSED, CoordinatorClient, Failed, asks_the_coordinator
from holdfast.terminal.shown import say
from snapshot.bundle import CONFIG, ROOT
from snapshot.signature import ALGORITHMS, ED25519


@click.group()
def rotate() -> None:
    """Keys that come and keys that go. Each step is a trust bundle, which root keys sign."""


@rotate.command()
@asks_the_coordinator
def status(asked: CoordinatorClient) -> None:
    """Every key of the bundle, and what comes next for it and when."""
    held, versions = asked.get("keys"), asked.get("fleet")["versions"]
    more = {"directory": held["directory"], "held": held["keys"], "nodes": versions.get("trust_bundle", {})}
    answer = {**asked.get("rotation"), **more}
    asked.show(answer, _render)


@rotate.command()
@click.option("--purpose", type=click.Choice([CONFIG, ROOT]), default=CONFIG, show_default=True)
@click.option("--public-key", type=click.Path(path_type=Path, exists=True), help="Of a key made elsewhere (PEM).")
@click.option("--new-key-to", type=click.Path(path_type=Path),
              help="Without --public-key: the directory that a new key is made in.  [default: of a config key, where"
              " the coordinator looks for them]")  # fmt: skip
@click.option("--algorithm", type=click.Choice(ALGORITHMS), default=ED25519, show_default=True)
@click.option("--not-after", metavar="TIME", help="Its end, YYYY-MM-DDTHH:MM:SSZ.  [default: config 1 year, root 20]")
@click.option("--scope-type", "scope_types", multiple=True, help="Of a config key: sign only this, and further ones.")
@bundle_options
@asks_the_coordinator
def add(
    asked: CoordinatorClient,
    purpose: str,
    public_key: Path | None,
    new_key_to: Path | None,
    algorithm: str,
    not_after: str | None,
    scope_types: tuple[str, ...],
    signing: Signing,
) -> None:
    """Announce a new key. From then on the coordinator signs with it and with the old one."""
    more: dict[str, object] = {} if not_after is None else {"not_after": not_after}
    more |= {"scope_types": list(scope_types)} if scope_types else {}
    if public_key is not None:
        spki = trust.read_public(public_key)
        carry_out(asked, signing, *REQUESTS, body={"wishes": [trust_changes.add(purpose, algorithm, spki, **more)]})
        return
    directory = new_key_to or _keys_directory(asked, purpose)
    key = keystore.new_key(algorithm)
    wish = trust_changes.add(purpose, key.algorithm, key.public_key, **more)
    request = drafted(asked, signing, *REQUESTS, body={"wishes": [wish]})
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
    wish = {"wish": "retire", "key_id": found, **({"early": True} if early else {})}
    carry_out(asked, signing, *REQUESTS, body={"wishes": [wish]})


@rotate.command()
@click.argument("key_id")
@bundle_options
@asks_the_coordinator
def remove(asked: CoordinatorClient, key_id: str, signing: Signing) -> None:
    """A key whose rollout is over leaves the bundle."""
    wish = {"wish": "remove", "key_id": whole_key_id(asked, key_id)}
    carry_out(asked, signing, *REQUESTS, body={"wishes": [wish]})


@rotate.command()
@click.argument("purpose", type=click.Choice([CONFIG, ROOT]))
@click.argument("number", type=click.IntRange(1, 16))
@bundle_options
@asks_the_coordinator
def threshold(asked: CoordinatorClient, purpose: str, number: int, signing: Signing) -> None:
    """How many keys of a purpose have to sign."""
    wish = {"wish": "threshold", "purpose": purpose, "number": number}
    carry_out(asked, signing, *REQUESTS, body={"wishes": [wish]})


REQUESTS = ("trust", "requests")


def keys_directory(asked: CoordinatorClient) -> Path:
    """Where the coordinator looks for config keys: its own configuration says so, whichever that is."""
    return Path(asked.get("keys")["directory"])


def _keys_directory(asked: CoordinatorClient, purpose: str) -> Path:
    if purpose == ROOT:
        remedy = "name where this one is to lie, --new-key-to DIRECTORY, or make it there and give its --public-key"
        raise Failed(f"a root key is not kept with the coordinator; {remedy}", REFUSED)
    return keys_directory(asked)


def whole_key_id(asked: CoordinatorClient, beginning: str) -> str:
    """The key of the bundle whose id begins so, with or without `sha256:`."""
    wanted = beginning.removeprefix("sha256:")
    known = [str(key["key_id"]) for key in asked.get("rotation")["keys"]]
    found = [key_id for key_id in known if wanted and key_id.removeprefix("sha256:").startswith(wanted)]
    if len(found) != 1:
        what = "no key" if not found else f"{len(found)} keys"
        raise Failed(f"{what} of the bundle begins with {beginning}; `rotate status` lists them", REFUSED)
    return found[0]


def _goes_on_without(asked: CoordinatorClient, key_id: str) -> None:
    """This coordinator holds another config key that signs all that the old one does."""
    held = {each["key_id"]: each["faults"] for each in asked.get("keys")["keys"]}
    others = [faults for other, faults in held.items() if other != key_id]
    for scope, fault in held.get(key_id, {}).items():
        if fault is None and all(faults[scope] is not None for faults in others):
            remedy = "put its successor's file into the keys directory, and reload the coordinator"
            raise Failed(f"without {key_id} this coordinator could not sign {scope}; {remedy}", REFUSED)


def _render(answer: dict[str, Any]) -> None:
    trust.render(answer)
    say()
    for key in answer["held"]:
        faults = sorted({fault for fault in key["faults"].values() if fault})
        signs = sorted(scope for scope, fault in key["faults"].items() if not fault)
        what = f"signs {'everything' if not faults else ', '.join(signs) or 'nothing'}"
        say(f"this coordinator holds {key['key_id']}: {what}{' (' + ', '.join(faults) + ')' if faults else ''}")
    if not answer["held"]:
        say(f"this coordinator holds no config key: put one into {answer['directory']}, and reload it")
    for version, count in answer["nodes"].items():
        say(f"nodes that hold bundle {version}: {count}")
