"""The files of declared Configs, settled: what each of them holds, by the hashes of its parts, or what is wrong. Pure.

    settle(declared, uploads, kept, read, shapes)    the same resources, of which nothing but hashes is left
    content_name(yaml_file, path)                    by which `holdfastctl` uploads a file beside a YAML file

Whatever the YAML says in its own words (`text`, `json`, `base64`) becomes parts like those of a file that was uploaded.
So a Config in the database says the same whichever way it was written, and only what is new is looked at: a file whose
parts a Config holds already, under the same name and exemptions, was judged when it came.
"""

import base64
import binascii
import posixpath
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from coordinator.declared import contents, templates
from coordinator.declared.contents import PART_BYTES, ReadPart, UploadedFile
from coordinator.declared.fields import FieldFault, Path
from coordinator.declared.kinds import Config, ConfigFile, EgressResource, FileContent, Resource
from coordinator.declared.model import Key
from coordinator.declared.resources import Declared, DeclaredProblem, InvalidResources, exemption
from coordinator.declared.templates import Template, TemplateError
from coordinator.declared.value_shapes import Shapes
from snapshot import canonical
from snapshot.limits import DEFAULT

SCHEMA_BYTES = 256 << 10
INDEX_BYTES, NAME_BYTES = 48, 44  # of a file's entry in the index, beside its path; of the name of a part
_REFERENCE = "keep it in a secret store, and let the program that reads the file fetch it there"
_SPLIT = "split it, or make it smaller"
_OTHER_SIZE = ("has another size than its parts", "read it again: apply with holdfastctl")


@dataclass(frozen=True)
class SchemaCheck:
    """A value that a schema is to judge, and where its faults are to be said. `node_ids`: whose, where it is made of a
    template.
    """

    declared: Declared
    at: Path
    name: str
    schema: bytes
    value: bytes
    node_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class TemplateCheck:
    """A template whose texts a schema is to judge, once the nodes are known (template_checks.py)."""

    declared: Declared
    config_id: str
    at: Path
    name: str
    schema: bytes
    template: Template


@dataclass
class SettledFiles:
    """`parts`: what is to be kept of what the YAML says itself, by hash. `checks`, `templates`: what is left to be
    judged.
    """

    declared: dict[Key, Declared]
    parts: dict[str, bytes] = field(default_factory=dict)
    checks: list[SchemaCheck] = field(default_factory=list)
    templates: list[TemplateCheck] = field(default_factory=list)


@dataclass(frozen=True)
class _Sources:
    """Where contents come from, and by what they are judged."""

    uploads: Mapping[str, UploadedFile]
    kept: Set[str]
    read: ReadPart
    shapes: Shapes
    before: Mapping[Key, Resource]


@dataclass(frozen=True)
class _Look:
    """A file that is being settled. `said`: the parts of what the YAML says itself, by hash."""

    origin: Declared
    config: Config
    path: str
    file: ConfigFile
    source: str
    content: FileContent
    said: Mapping[str, bytes]
    sources: _Sources

    def read(self, sha256: str) -> bytes:
        return self.said[sha256] if sha256 in self.said else self.sources.read(sha256)


class _WrongFileError(Exception):
    """What is wrong with one member of a file."""

    def __init__(self, member: str, message: str, remedy: str) -> None:
        super().__init__(message)
        self.member, self.message, self.remedy = member, message, remedy


def content_name(yaml_file: str, path: str) -> str:
    """By which a file that is declared is uploaded: its place beside the YAML file."""
    return posixpath.join(posixpath.dirname(yaml_file), path)


def settle(
    declared: Mapping[Key, Declared],
    uploads: Mapping[str, UploadedFile],
    kept: Set[str],
    read: ReadPart,
    shapes: Shapes,
    before: Mapping[Key, Resource],
) -> SettledFiles:
    """`kept`: the parts that may be named. `before`: what is declared already. InvalidResources with all faults."""
    problems: list[DeclaredProblem] = []
    settled = SettledFiles(dict(declared))
    sources = _Sources(uploads, kept, read, shapes, before)
    for key, entry in declared.items():
        if isinstance(entry.resource, Config):
            settled.declared[key] = _settle_config(entry, entry.resource, sources, settled, problems)
        elif isinstance(entry.resource, EgressResource) and entry.resource != before.get(key):
            settled.checks.extend(_check_settings(entry, entry.resource))
    if problems:
        raise InvalidResources(problems)
    return settled


def _settle_config(
    origin: Declared, config: Config, sources: _Sources, settled: SettledFiles, problems: list[DeclaredProblem]
) -> Declared:
    """What is cheap to say comes first: of a folder that is too large no byte is looked at."""
    looks = []
    for path, file in config.files.items():
        with _telling(origin, path, file, problems):
            look = _look_at(origin, config, path, file, sources)
            settled.parts.update(look.said)
            looks.append(look)
    if too_large := list(_too_large(looks)):
        problems += [origin.problem(path) for path in too_large]
        return origin
    files: dict[str, ConfigFile] = {}
    for look in looks:
        with _telling(origin, look.path, look.file, problems):
            files[look.path] = _judge_content(look, sources, settled)
    return replace(origin, resource=replace(config, files=files))


@contextmanager
def _telling(origin: Declared, path: str, file: ConfigFile, problems: list[DeclaredProblem]) -> Iterator[None]:
    """What is wrong with a file, at its line; the others are looked at all the same."""
    at: Path = ("spec", "files", path)
    try:
        yield
    except _WrongFileError as error:
        problems.append(origin.problem(FieldFault((*at, error.member), error.message, error.remedy)))
    except TemplateError as error:
        for fault in error.faults:
            message = f"line {fault.line} of the template: {fault.message}"
            problems.append(origin.problem(FieldFault((*at, source_of(file)), message, fault.remedy)))


def _too_large(looks: Sequence[_Look]) -> Iterator[FieldFault]:
    total = sum(look.content.size for look in looks)
    index = sum(INDEX_BYTES + len(look.path) + NAME_BYTES * len(look.content.parts) for look in looks)
    if total + index > DEFAULT.content_bytes:
        size = f"has {-(-total // (1 << 20))} MiB"
        yield FieldFault(("spec", "files"), size, f"at most {DEFAULT.content_bytes >> 20} MiB: split it into several")
    if index > DEFAULT.section_bytes:
        message = "has more names than the index of one Config holds"
        yield FieldFault(("spec", "files"), message, "shorten the paths, or split it into several")


def source_of(file: ConfigFile) -> str:
    """The member that says what it holds."""
    if file.file:
        return "file"
    said = {"text": file.text, "json": file.json, "base64": file.base64}
    return next((name for name, value in said.items() if value is not None), "content")


def _look_at(origin: Declared, config: Config, path: str, file: ConfigFile, sources: _Sources) -> _Look:
    source = source_of(file)
    content, inline = _content(origin, file, source, sources)
    return _Look(origin, config, path, file, source, content, {contents.digest(part): part for part in inline}, sources)


def _judge_content(look: _Look, sources: _Sources, settled: SettledFiles) -> ConfigFile:
    """The file with nothing but its content."""
    content, file = look.content, look.file
    is_said = look.source in ("text", "json")  # looked at with the YAML (resources.py)
    if not is_said and not _was_judged(look, sources.before):
        _judge(look, sources.shapes)
    if file.template:
        template = templates.parse(_text(look, "a template"))
        content = replace(content, names=tuple(template.names))
        if file.schema:
            origin, name = look.origin, file.schema
            check = TemplateCheck(origin, look.config.id, _place_of(look), name, _schema(look), template)
            settled.templates.append(check)
    elif file.schema:
        value = _text(look, "what a schema judges").encode()
        settled.checks.append(SchemaCheck(look.origin, _place_of(look), file.schema, _schema(look), value))
    return ConfigFile(content=content, template=file.template, mode=file.mode)


def _content(origin: Declared, file: ConfigFile, source: str, sources: _Sources) -> tuple[FileContent, list[bytes]]:
    """What it holds, and the parts of what the YAML says itself."""
    if source == "file":
        found = _upload_of(content_name(origin.file, file.file), "file", sources)
        return FileContent(found.size, found.parts, origin=f"file {file.file}"), []
    if source == "content":
        return _stored_content(file.stored_content, sources), []
    parts = contents.split(_inline_bytes(file, source))
    hashes = tuple(map(contents.digest, parts))
    return FileContent(sum(map(len, parts)), hashes, origin=source), parts


def _upload_of(name: str, member: str, sources: _Sources) -> UploadedFile:
    found = sources.uploads.get(name)
    if found is None or not found.parts or not sources.kept >= set(found.parts):
        raise _WrongFileError(member, "was not uploaded", "apply with holdfastctl, which does; then once more")
    return found


def _stored_content(content: FileContent, sources: _Sources) -> FileContent:
    """As the coordinator shows it; of what it says there nothing is believed that can be found out."""
    if not sources.kept >= set(content.parts):
        raise _WrongFileError("content", "is not kept here", "give the file itself: file, text, json or base64")
    return replace(content, names=())


def _inline_bytes(file: ConfigFile, source: str) -> bytes:
    if source == "text":
        return (file.text or "").encode()
    if source == "json":
        return canonical.dumps(file.json)
    try:
        data = base64.b64decode("".join((file.base64 or "").split()), validate=True)
    except (ValueError, binascii.Error):
        raise _WrongFileError("base64", "is no base64", "encode it with base64, padded") from None
    if len(data) > PART_BYTES:
        raise _WrongFileError("base64", f"has {len(data)} bytes", f"at most {PART_BYTES}: give it as a file")
    return data


def _was_judged(look: _Look, before: Mapping[Key, Resource]) -> bool:
    found = before.get(look.config.key)
    if not isinstance(found, Config) or found.exempt != look.config.exempt or look.path not in found.files:
        return False
    kept = found.files[look.path].stored_content
    return (kept.size, kept.parts) == (look.content.size, look.content.parts)


def _judge(look: _Look, shapes: Shapes) -> None:
    """Whether the parts are what the declaration says, and hold no secret. A value is never shown (threats D-55)."""
    at = f"files.{look.path}"
    exempt = {exemption.family for exemption in look.config.exempt if exemption.at == at}
    for line, suspicion in contents.secrets_in(_parts(look), shapes):
        family = suspicion.family
        if suspicion.is_certain:
            raise _WrongFileError(look.source, f"holds a raw secret in line {line} ({family})", _REFERENCE)
        if family not in exempt:
            way = f"; if it is none, beside `files`: {exemption(at, family)}"
            message = f"line {line} looks like {shapes[family].about} ({family})"
            raise _WrongFileError(look.source, message, _REFERENCE + way)


def _parts(look: _Look) -> Iterator[bytes]:
    sizes = contents.sizes(look.content.size)
    if len(sizes) != len(look.content.parts):
        raise _WrongFileError(look.source, *_OTHER_SIZE)
    for sha256, size in zip(look.content.parts, sizes, strict=True):
        part = look.read(sha256)
        if len(part) != size:
            raise _WrongFileError(look.source, *_OTHER_SIZE)
        yield part


def _text(look: _Look, what: str) -> str:
    if look.content.size > PART_BYTES:
        message = f"has {look.content.size} bytes; {what} has at most {PART_BYTES}"
        raise _WrongFileError(look.source, message, _SPLIT)
    try:
        return look.read(look.content.parts[0]).decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise _WrongFileError(look.source, f"line {line} is not UTF-8", f"save it as UTF-8: {what} is text") from None


def _check_settings(origin: Declared, resource: EgressResource) -> Iterator[SchemaCheck]:
    """By the schema that is declared beside them."""
    if resource.schema:
        schema, value = canonical.dumps(resource.schema), canonical.dumps(resource.settings)
        yield SchemaCheck(origin, ("spec", "settings"), "the schema", schema, value)


def _place_of(look: _Look) -> Path:
    return "spec", "files", look.path, look.source


def _schema(look: _Look) -> bytes:
    found = _upload_of(content_name(look.origin.file, look.file.schema), "schema", look.sources)
    if found.size > SCHEMA_BYTES or len(found.parts) != 1:
        raise _WrongFileError("schema", f"has {found.size} bytes; a schema has at most {SCHEMA_BYTES}", _SPLIT)
    return look.sources.read(found.parts[0])
