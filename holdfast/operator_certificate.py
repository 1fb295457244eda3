"""`holdfastctl show-certificate`: the coordinator's certificate, without network (rules K11, P15)."""

from pathlib import Path

import click

from coordinator import configuration
from holdfast import operator_output as output
from holdfast.operator_socket import says_what_is_wrong
from wire.certificate import BadCertificateError, Certificate, pem_to_der


@click.command("show-certificate")
@click.argument("certificate", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--configuration", "path", type=click.Path(path_type=Path), default=configuration.DEFAULT_PATH,
              show_default=True, help="Names the certificate, where none is given.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def show_certificate(certificate: Path | None, path: Path, as_json: bool) -> None:
    """The certificate that nodes are shown, and its fingerprint."""
    file = certificate or configuration.file_of(configuration.load(path).certificate)
    pem = file.read_bytes()
    try:
        found = Certificate.read(pem_to_der(pem))
    except BadCertificateError as error:
        raise click.UsageError(f"{file}: {error}") from None
    answer = {
        "certificate": pem.decode("ascii", "replace"),
        "fingerprint": found.fingerprint,
        "names": list(found.names),
        "not_before": output.time(found.not_before),
        "not_after": output.time(found.not_after),
    }
    if as_json:
        output.write_json(answer)
        return
    output.facts((name.replace("_", " "), value) for name, value in answer.items() if name != "certificate")
    click.echo(answer["certificate"], nl=False)
