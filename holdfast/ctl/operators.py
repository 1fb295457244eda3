"""`holdfastctl operators`: who may ask the coordinator over TLS (docs/admin-api.md)."""

import os
from pathlib import Path

import click

from coordinator.base.refusal import Code, Refused
from holdfast.ctl import output
from holdfast.ctl.socket import CoordinatorClient, asks_the_coordinator, confirm, says_what_is_wrong
from holdfast.terminal.clock import wall_clock
from holdfast.terminal.shown import say, say_json
from snapshot.identifiers import is_id
from wire.certificate import BadCertificateError, Certificate, make_identity, pem_to_der
from wire.operators.operator_answers import Operator, OperatorList, RemovedOperator
from wire.operators.operator_messages import CertificateRequest, RoleRequest
from wire.operators.operator_roles import OperatorRole

DAY = 86_400
ROLE = click.Choice([str(role) for role in OperatorRole])


@click.group()
def operators() -> None:
    """Who may ask over TLS. Added and removed on the coordinator's machine alone."""


@operators.command()
@click.argument("name")
@click.option("--out", type=click.Path(path_type=Path, exists=True, file_okay=False), required=True,
              help="The directory that NAME.crt and NAME.key are written to.")  # fmt: skip
@click.option("--days", type=click.IntRange(1, 3_650), default=365, show_default=True, help="How long it is good.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def key(name: str, out: Path, days: int, as_json: bool) -> None:
    """A key and its certificate, on the operator's own machine. The key stays there; the certificate is added."""
    if not is_id(name):
        raise click.UsageError(f"{name!r} is no id: a-z 0-9 . _ -")
    pair = make_identity(name, wall_clock(), lifetime_s=days * DAY)
    files = {"certificate": out / f"{name}.crt", "key": out / f"{name}.key"}
    for existing in (file for file in files.values() if os.path.lexists(file)):
        remedy = "move it away, or choose another directory"
        raise Refused(Code.CONFLICT, f"{existing} is there already", remedy=remedy)
    _write_new(files["key"], pair.key_pem, 0o600)
    _write_new(files["certificate"], pair.certificate_pem, 0o644)
    answer = {name: str(file) for name, file in files.items()} | _about(pair.der)
    if as_json:
        say_json(answer)
        return
    output.facts((member.replace("_", " "), value) for member, value in answer.items())
    say(f"next, on the coordinator's machine: holdfastctl operators add {name} --certificate {name}.crt")


@operators.command()
@click.argument("name")
@click.option("--certificate", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True,
              help="The certificate that `operators key` has made (PEM).")  # fmt: skip
@click.option("--role", type=ROLE, default=str(OperatorRole.ADMIN), show_default=True,
              help="What they may: look; look and change; look and approve; everything.")  # fmt: skip
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def add(asked: CoordinatorClient, name: str, certificate: Path, role: str, yes: bool) -> None:
    """Let an operator in, in a role. What they change is in the audit log under their name."""
    try:
        der = pem_to_der(certificate.read_bytes())
        about = _about(der)
    except BadCertificateError as error:
        raise click.UsageError(f"{certificate}: {error}") from None
    until = f"with {about['fingerprint']}, until {about['not_after']}"
    confirm(f"Let {name} in as {OperatorRole(role).with_article} {until}?", yes=yes)
    answer = asked.post(Operator, "operators", name, body=CertificateRequest(der, role))
    until = output.time(answer.expires_at)
    asked.say(answer, f"added: {name}, {answer.role}, {answer.certificate_sha256}, until {until}")


@operators.command("set-role")
@click.argument("name")
@click.argument("role", type=ROLE)
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def set_role(asked: CoordinatorClient, name: str, role: str, yes: bool) -> None:
    """What an operator may from now on, at once and on every coordinator.

    The machine's root may everything whatever stands here, so the last admin is never locked out.
    """
    confirm(f"Make {name} {OperatorRole(role).with_article}?", yes=yes)
    answer = asked.post(Operator, "operators", name, "role", body=RoleRequest(role))
    asked.say(answer, f"{name} is {OperatorRole(answer.role).with_article} now")


@operators.command("list")
@asks_the_coordinator
def list_(asked: CoordinatorClient) -> None:
    """Who may come in, in which role, and until when."""
    asked.show(asked.get(OperatorList, "operators"), _render)


@operators.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@asks_the_coordinator
def remove(asked: CoordinatorClient, name: str, yes: bool) -> None:
    """Shut an operator out, at once; open connections end."""
    confirm(f"Shut {name} out?", yes=yes)
    asked.say(asked.delete(RemovedOperator, "operators", name), f"removed: {name}")


def _about(der: bytes) -> dict[str, str]:
    read = Certificate.read(der)
    return {"fingerprint": read.fingerprint, "not_after": output.time(read.not_after)}


def _write_new(file: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(descriptor, "wb") as opened:
        opened.write(data)


def _render(answer: OperatorList) -> None:
    rows = (
        (operator.name, operator.role, operator.certificate_sha256, output.time(operator.expires_at), operator.added_by,
         output.time(operator.added_at))
        for operator in answer.operators
    )  # fmt: skip
    columns = ("operator", "role", "certificate", "until", "added by", "added")
    output.table(columns, rows, nothing="nobody may come in over TLS")
