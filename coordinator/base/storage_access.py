"""How this coordinator writes to the stores that are declared: `[storage.<id>]` of coordinator.toml.

Which stores there are, and what they keep, is declared (`StorageEndpoint`). How to write there is this machine's: a
directory is of one machine, and credentials are never declared state, which every operator reads.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wire import forms

KEYS = {
    "directory": "A directory of this machine that is kept up to date: a web server's, or one that is synchronised "
    "elsewhere. The service's account must be able to write there.",
    "bucket": "Or the URL of a bucket of an S3-compatible store: `https://s3.example.org/holdfast`, or "
    "`https://holdfast.s3.eu-central-1.amazonaws.com`. Plain HTTP on this machine alone.",
    "region": "What requests are signed for; what a store of one's own calls it, or the default.",
    "prefix": "What stands before the names of our files there, as `prod/`.",
    "credentials": "Of a bucket: a file as `~/.aws/credentials`, with `[default]`; or `credential:NAME`. It is read at "
    "each round.",
    "ca_file": "Of a bucket: the CAs that its server's chain must end at, PEM; or nothing: those of the machine.",
}
DEFAULTS = {"region": "us-east-1", "prefix": "", "ca_file": "", "directory": "", "bucket": "", "credentials": ""}
_TEXT = forms.text(forms.PATH_MAX, 1)
_PREFIX = re.compile(r"([A-Za-z0-9_.-]+/)*", re.ASCII)
_REGION = re.compile(r"[a-z0-9-]{1,64}", re.ASCII)


@dataclass(frozen=True)
class StorageAccess:
    """Exactly one of `directory` and `bucket`. `credentials`: a file, or `credential:NAME`."""

    endpoint_id: str
    directory: str = ""
    bucket: str = ""
    region: str = DEFAULTS["region"]
    prefix: str = ""
    credentials: str = ""
    ca_file: str = ""


def read_access(value: object) -> tuple[StorageAccess, ...]:
    """Of a table that has no faults."""
    tables = value if isinstance(value, Mapping) else {}
    return tuple(StorageAccess(name, **{**DEFAULTS, **table}) for name, table in sorted(tables.items()))


def access_faults(value: object) -> Iterator[str]:
    """What is wrong with the tables, in sentences."""
    if not isinstance(value, Mapping):
        yield "storage must be tables: [storage.<id of a StorageEndpoint>]"
        return
    for name, table in value.items():
        at = f"storage.{name}"
        if not forms.IDENTIFIER.takes(name):
            yield f"{at}: the name is the id of a StorageEndpoint: a-z 0-9 . _ -"
        elif not isinstance(table, Mapping):
            yield f"{at} must be a table"
        else:
            yield from _faults_of(at, table)


def _faults_of(at: str, table: Mapping[str, object]) -> Iterator[str]:
    for key, given in table.items():
        if key not in KEYS:
            yield f"{at}.{key} is no key; there are {', '.join(KEYS)}"
        elif given != "" and not _TEXT.takes(given):
            yield f"{at}.{key} must be text"
    said = {key: str(table.get(key, default)) for key, default in DEFAULTS.items()}
    if bool(said["directory"]) == bool(said["bucket"]):
        yield f"{at} must have either directory or bucket"
    if said["directory"] and not Path(said["directory"]).is_absolute():
        yield f"{at}.directory must be absolute"
    if said["bucket"]:
        yield from _faults_of_bucket(at, said)


def _faults_of_bucket(at: str, said: Mapping[str, str]) -> Iterator[str]:
    if not _is_bucket(said["bucket"]):
        yield f"{at}.bucket must be https://host/bucket, or https://bucket.host; http:// on this machine alone"
    if not said["credentials"]:
        yield f"{at}.credentials is missing: the file with the key that may write to the bucket"
    if not _PREFIX.fullmatch(said["prefix"]):
        yield f"{at}.prefix must end with a slash, of letters, digits and . _ -"
    if not _REGION.fullmatch(said["region"]):
        yield f"{at}.region must be as eu-central-1"


def _is_bucket(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host, is_good = parts.hostname or "", parts.port != 0
    except ValueError:
        return False
    if not host or parts.username is not None or parts.query or parts.fragment or not is_good:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
