"""The credentials of an S3 store: a file in the form that every such program reads, of this machine alone.

    [default]
    aws_access_key_id = ...
    aws_secret_access_key = ...
    aws_session_token = ...        of credentials that end

They are read at each round, so that whoever renews them need not tell the coordinator.
"""

import configparser
from collections.abc import Callable
from pathlib import Path

from coordinator.base.refusal import Refused
from coordinator.storage.s3_signature import S3Credentials
from coordinator.storage.storage_error import StorageError, StorageFault

SECTION = "default"


def read_credentials(where: Callable[[], Path]) -> S3Credentials:
    """StorageError `unusable`, which names the file and nothing that it holds."""
    try:
        path = where()
        text = path.read_text(encoding="utf-8")
    except Refused as refused:
        raise StorageError(StorageFault.UNUSABLE, str(refused)) from None
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "is not UTF-8"
        raise StorageError(StorageFault.UNUSABLE, f"{path}: {said}") from None
    read = configparser.RawConfigParser()
    try:
        read.read_string(text)
        found = dict(read[SECTION])
        return S3Credentials(
            found["aws_access_key_id"], found["aws_secret_access_key"], found.get("aws_session_token", "")
        )
    except (configparser.Error, KeyError):
        detail = f"{path}: needs [{SECTION}] with aws_access_key_id and aws_secret_access_key"
        raise StorageError(StorageFault.UNUSABLE, detail) from None
