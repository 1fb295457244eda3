"""`holdfastctl render NODE [CONFIG] -f DIR`: what declared files would give a node, without a coordinator.

The compiler is pure, so this is the coordinator's own: the same bytes, for a node that is declared and need not have
joined. What only a member has (its certificate, so whom others are told of) is left out, and JSON Schemas are not
asked: `apply` and `diff` do that.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coordinator.base.refusal import Code, Refused
from holdfast.ctl import output
from holdfast.ctl.apply import FILES_HELP, saying
from holdfast.ctl.socket import says_what_is_wrong
from holdfast.terminal.shown import say, say_json

if TYPE_CHECKING:
    from coordinator.configs.rendered import RenderedFile

SHOWN_BYTES = 64 << 10  # of a text, on a terminal


@click.command()
@click.argument("node_id", metavar="NODE")
@click.argument("config", required=False)
@click.option("-f", "--files", "places", type=click.Path(path_type=Path, exists=True), multiple=True, required=True,
              help=FILES_HELP)  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), help="Write it all into this new directory.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")
@says_what_is_wrong
def render(node_id: str, config: str | None, places: tuple[Path, ...], out: Path | None, as_json: bool) -> None:
    """Show what NODE would be given by declared files, or of one CONFIG, without asking a coordinator.

    Of one CONFIG its texts are shown, too; --out writes everything as files.
    """
    files = _render(places, node_id, config)
    if out is not None:
        _write(out, files)
    if as_json:
        rows = [{"scope": file.scope, "name": file.name, "mode": file.mode, "size": file.size, "sha256": file.sha256}
                for file in files]  # fmt: skip
        say_json({"node_id": node_id, "files": rows})
        return
    rows_ = [(file.scope, file.name, file.mode, file.size, file.sha256[:16]) for file in files]
    output.table(("scope", "file", "mode", "bytes", "sha256"), rows_, nothing="nothing is for this node")
    for rendered in files if config is not None and out is None else ():
        _show(rendered)


def _render(places: tuple[Path, ...], node_id: str, config: str | None) -> "Sequence[RenderedFile]":
    from coordinator.configs import rendered  # noqa: PLC0415 - the readers of YAML: --help does not wait for them
    from holdfast.ctl import declared_state  # noqa: PLC0415 - as above

    with saying():
        state = declared_state.load(places)
    model = state.model
    if node_id not in model.members:
        remedy = "declare it, or correct the id"
        raise Refused(Code.NOT_FOUND, f"no Node {node_id} is declared there", remedy=remedy)
    files = list(rendered.files_of(model, node_id, state.read, config))
    if config is not None and not files:
        remedy = "see its `to`, and its organization"
        raise Refused(Code.NOT_FOUND, f"no Config {config} is for {node_id}", remedy=remedy)
    return files


def _write(out: Path, files: "Sequence[RenderedFile]") -> None:
    """Into a directory of its own: nothing that lies somewhere is written over."""
    try:
        out.mkdir(mode=0o755, parents=True)
    except FileExistsError:
        raise Refused(Code.CONFLICT, f"{out} is there already", remedy="name a new directory") from None
    for rendered_file in files:
        place = out / rendered_file.place
        place.parent.mkdir(parents=True, exist_ok=True)
        with place.open("xb") as file:
            for piece in rendered_file.pieces():
                file.write(piece)
            os.fchmod(file.fileno(), int(rendered_file.mode, 8))
    say(f"{len(files)} files in {out}", err=True)


def _show(file: "RenderedFile") -> None:
    if file.size > SHOWN_BYTES:
        return
    try:
        text = b"".join(file.pieces()).decode()
    except UnicodeDecodeError:
        return
    say()
    say(file.name, bold=True)
    say(*text.splitlines())
