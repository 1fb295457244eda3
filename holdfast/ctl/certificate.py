"""`holdfastctl show-certificate`: the coordinator's certificate, and the CA that nodes are given for it.

Without network (rules K11, P15).
"""

import os
import re
from pathlib import Path

import click

from coordinator.base.places import DEFAULT_PATH
from coordinator.base.refusal import Code, Refused
from coordinator.keys import identity as identities
from coordinator.keys.signing_key import UnusableKeyError
from coordinator.setup import configuration
from holdfast.ctl import output
from holdfast.ctl.socket import says_what_is_wrong
from holdfast.terminal.shown import say, say_json
from wire.certificate import BadCertificateError, Certificate, names_as_issuer, pem_to_der

_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
_TITLES = {"file": "certificate", "authority": "CA for nodes"}


@click.command("show-certificate")
@click.argument("certificate", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=DEFAULT_PATH,
              show_default=True, help="Names the certificate, where none is given.")  # fmt: skip
@click.option("--identity", is_flag=True, help="This coordinator's identity, by which storage nodes know it.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def show_certificate(certificate: Path | None, path: Path, identity: bool, as_json: bool) -> None:
    """The certificate that nodes are shown, its fingerprint, and the CA file that they are given for it.

    The CA is looked for beside the certificate, where init puts it. Another CA's file is not here: nodes are given
    that one.
    """
    from coordinator.keys.server_certificate import AUTHORITY  # noqa: PLC0415 - the network's library: no other command waits for it

    file = certificate or _file_of(path, identity=identity)
    pem = b"".join(_CERTIFICATE.findall(file.read_bytes()))  # a key that lies with it is nobody's to be shown
    try:
        found = Certificate.read(pem_to_der(pem))
    except BadCertificateError as error:
        raise click.UsageError(f"{file}: {error}") from None
    authority = _authority(file.absolute().with_name(AUTHORITY), found)
    answer: dict[str, object] = {
        "file": str(file.absolute()),
        "authority": str(authority) if authority else None,
        "certificate": pem.decode("ascii", "replace"),
        "fingerprint": found.fingerprint,
        "names": list(found.names),
        "not_before": output.time(found.not_before),
        "not_after": output.time(found.not_after),
    }
    if as_json:
        say_json(answer)
        return
    answer["authority"] = authority or f"not here: no {AUTHORITY} beside it has made it"
    text = str(answer.pop("certificate"))
    output.facts((_TITLES.get(name, name.replace("_", " ")), value) for name, value in answer.items())
    say(*text.splitlines())


def _file_of(path: Path, *, identity: bool) -> Path:
    """The file that coordinator.toml names."""
    at = configuration.load(path)
    if not identity:
        return configuration.file_of(at.certificate)
    try:
        return identities.find(at.keys_directory, os.environ)
    except UnusableKeyError as error:
        raise Refused(Code.BAD_KEY, str(error), remedy="holdfastctl coordinators pin") from None


def _authority(place: Path, shown: Certificate) -> Path | None:
    """The CA's file, where it is the one that has made the certificate."""
    try:
        return place if names_as_issuer(shown.der, pem_to_der(place.read_bytes())) else None
    except (FileNotFoundError, BadCertificateError):
        return None
