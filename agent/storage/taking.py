"""How a file comes to lie here, whoever brings it: written beside, judged, and put in its place.

A coordinator puts it (storage_api.py), or this node copies it from another store (replicating.py). No head and no
recovery goes back: the highest version counts that lay here, also after that was taken away.
"""

import hashlib
import os
from collections.abc import AsyncIterable, Iterator
from dataclasses import dataclass, field
from io import FileIO
from itertools import count
from pathlib import Path

import trio

from agent.state.node import RunningNode
from agent.storage.judging import FollowedBundle, judge_file
from agent.storage.storage_terms import SignedTerms
from store.base.disk import refusal
from store.published_files import PIECE_BYTES, PublishedFile, PublishedFiles, is_versioned, place_of


class OlderFileError(Exception):
    """A newer one of that node lies here, or lay here."""


@dataclass
class FileTaking:
    """`temporary`: where a file lies until it is judged. `followed`: the trust bundle of a version as this node has
    followed it, or nothing.
    """

    node: RunningNode
    kept: PublishedFiles
    temporary: Path
    terms: SignedTerms
    followed: FollowedBundle
    _placing: trio.Lock = field(default_factory=trio.Lock)  # from the look at what lies there to the rename
    _numbers: Iterator[int] = field(default_factory=count)

    async def take(self, path: str, chunks: AsyncIterable[bytes]) -> PublishedFile:
        """Several come at a time, and who brings one slowly holds up nobody: each has a file of its own until it is
        judged. Rejected, StoreError, OlderFileError.
        """
        file = self.temporary / f"published-{next(self._numbers)}.new"
        try:
            sha256, size = await self._write(file, chunks, path)
            shards, holder = self.terms.now().shards, self.node.holder()
            said = await self.node.threads.verify(
                judge_file, path, file, holder, shards, self.node.now(), self.followed, self.kept.targets_of
            )
            version, ends_at = (said.version, said.expires_at) if is_versioned(path) else ((0, 0), 0)
            place = place_of(said) if path.startswith("documents/") else 0
            taken = PublishedFile(sha256, size, version, ends_at, place)
            async with self._placing:
                if self.kept.highest(path, self.node.now()) > version:
                    raise OlderFileError(path)
                await self.node.threads.write(self.kept.put, path, file, taken)
            return taken
        finally:
            with trio.CancelScope(shield=True):
                await self.node.threads.write(_remove, file)

    async def remove(self, path: str) -> None:
        """StoreError."""
        async with self._placing:
            await self.node.threads.write(self.kept.remove, path, self.node.now())

    async def _write(self, file: Path, chunks: AsyncIterable[bytes], path: str) -> tuple[str, int]:
        """Durable; its hash and its size."""
        digest, size = hashlib.sha256(), 0
        opened = await self.node.threads.write(_create, file)
        try:
            async for piece in chunks:
                size += len(piece)
                self.kept.check_room(path, size)
                digest.update(piece)
                await self.node.threads.write(_write_all, opened, piece)
            await self.node.threads.write(os.fsync, opened.fileno())
        finally:
            with trio.CancelScope(shield=True):
                await self.node.threads.write(opened.close)
        return digest.hexdigest(), size


def _create(file: Path) -> FileIO:
    return FileIO(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600), "wb")


def _write_all(file: FileIO, data: bytes) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[file.write(view[:PIECE_BYTES]) or 0 :]
    except OSError as error:
        raise refusal(error) from error


def _remove(file: Path) -> None:
    file.unlink(missing_ok=True)
