"""A config on a running agent (format.md 11): active as any scope, then files, changed and withdrawn with its head."""

import stat

from tests.fakes.config_document import FileContent, config_sections
from tests.journeys.lab import lab

WEB = "config/web"
FIRST = {"nginx.conf": FileContent(b"worker_processes 1;\n"), "bin/check": FileContent(b"#!/bin/sh\n", "0755")}
SECOND = FIRST | {"nginx.conf": FileContent(b"worker_processes 2;\n"), "big.bin": FileContent(bytes(range(256)) * 8192)}


def published(one, files):
    made = config_sections(files)
    document = one.server.snapshot(made.sections, WEB, raw=made.raw, subject_node_id="*")
    one.server.announce()
    return document


def found(place):
    files = [path for path in place.rglob("*") if path.is_file()]
    return {str(path.relative_to(place)): path.read_bytes() for path in files}


def bytes_of(files):
    return {path: file.data for path, file in files.items()}


async def test_a_shared_config_becomes_files_and_goes(tmp_path, mock_clock):
    """A document for every node; a bad one changes nothing; what the head lists no more is gone."""
    async with lab(tmp_path, mock_clock) as one:
        published(one, FIRST)
        place = one.settings.local.projection_directory / "active/config/web"
        async with one.agent():
            await one.until_active(WEB, 1)
            await one.until(lambda: found(place) == bytes_of(FIRST))
            assert stat.S_IMODE((place / "bin/check").stat().st_mode) & 0o700 == 0o700
            beat = await one.server.wait_heartbeat()
            assert {"candidates", "config"} <= {*beat.features}
            published(one, SECOND)
            await one.until_active(WEB, 2)
            await one.until(lambda: found(place) == bytes_of(SECOND))
            published(one, {"key.pem": FileContent(b"-----BEGIN PRIVATE KEY-----\n")})
            await one.until(lambda: one.rejected(WEB) == "raw_secret")
            assert one.version(WEB) == 2
        async with one.agent():
            await one.settled()
            assert found(place) == bytes_of(SECOND)
            del one.cluster.published[WEB]
            one.server.announce()
            await one.until(lambda: one.version(WEB) is None)
            await one.until(lambda: not place.exists())
