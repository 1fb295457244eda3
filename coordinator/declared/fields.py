"""The forms that a declared value may have: how it is read, what is wrong with it, how it is described.

A form reads a plain value (from YAML or from the database) into an immutable one and reports every fault that it finds,
each with the path of the member and a remedy. docs/resources.md is made from the same objects. Scalars are judged as in
messages (wire/forms.py): what a file may declare, a node may report and an answer may show.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cached_property
from ipaddress import ip_address, ip_network
from typing import Any, Protocol

from snapshot import canonical
from snapshot.identifiers import is_id
from wire import forms
from wire.certificate import BadCertificateError, Certificate, pem_chain_to_der

Path = tuple[str | int, ...]

EXISTS, ABSENT = "exists", "absent"
EQUALS, AT_LEAST, CONTAINS = "equals", "at_least", "contains"
WANTED_BYTES = 4 << 10
_WAYS = f"`{EXISTS}`, `{ABSENT}`, `{{{EQUALS}: X}}`, `{{{AT_LEAST}: N}}` or `{{{CONTAINS}: X}}`"

_PART = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_DOMAIN = re.compile(
    r"(?=.{1,253}\Z)(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?", re.ASCII
)


@dataclass(frozen=True)
class FieldFault:
    """One thing wrong with a declared value."""

    path: Path
    message: str
    remedy: str


class FieldForm(Protocol):
    """`read` gives the immutable value, or None after it has reported at least one fault."""

    @property
    def description(self) -> str: ...

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object: ...


@dataclass(frozen=True)
class Scalar:
    """A value that one test decides."""

    description: str
    accepts: Callable[[object], bool]

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if self.accepts(value):
            return value
        faults.append(FieldFault(path, f"must be {self.description}", "correct the value"))
        return None


@dataclass(frozen=True)
class OneOf:
    words: tuple[str, ...]

    @property
    def description(self) -> str:
        return "one of " + ", ".join(f"`{word}`" for word in self.words)

    @cached_property
    def _form(self) -> forms.Form[str]:
        return forms.one_of(*self.words)

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if self._form.takes(value):
            return value
        near = difflib.get_close_matches(str(value), self.words, 1)
        remedy = f"did you mean {near[0]}?" if near else "choose one of " + ", ".join(self.words)
        faults.append(FieldFault(path, f"must be {self.description}".replace("`", ""), remedy))
        return None


@dataclass(frozen=True)
class ListForm:
    """A list; as a set it is kept sorted, and nothing may stand in it twice."""

    each: FieldForm
    most: int
    is_set: bool = True

    @property
    def description(self) -> str:
        what = "set" if self.is_set else "list"
        return f"a {what} of at most {self.most}, each {self.each.description}"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, (list, tuple)):
            faults.append(FieldFault(path, "must be a list", "write [a, b] or one line with `- ` for each"))
            return None
        if len(value) > self.most:
            faults.append(FieldFault(path, f"has {len(value)} entries", f"at most {self.most} are allowed"))
            return None
        read = [self.each.read(item, (*path, index), faults) for index, item in enumerate(value)]
        if not self.is_set or any(item is None for item in read):
            return tuple(read)
        for index, item in enumerate(read):
            if item in read[:index]:
                faults.append(FieldFault((*path, index), f"{item} stands here twice", "remove one of them"))
        return tuple(sorted(set(map(str, read))))


@dataclass(frozen=True)
class MappingForm:
    """A mapping from ids to values of one form, kept in the order of the ids."""

    each: FieldForm
    most: int

    @property
    def description(self) -> str:
        return f"a mapping of at most {self.most} ids, each to {self.each.description}"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `name: value` lines"))
            return None
        if len(value) > self.most:
            faults.append(FieldFault(path, f"has {len(value)} entries", f"at most {self.most} are allowed"))
            return None
        for name in value:
            if not is_id(name):
                faults.append(FieldFault((*path, str(name)), "the name must be an id", ID_REMEDY))
        return {name: self.each.read(value[name], (*path, name), faults) for name in sorted(value, key=str)}


@dataclass(frozen=True)
class PathMapping(MappingForm):
    """A mapping from paths of files to values of one form, kept in the order of the paths (format.md 11)."""

    @property
    def description(self) -> str:
        return f"a mapping of at most {self.most:,} paths, each to {self.each.description}"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `path: {file: ...}` lines"))
            return None
        if not 0 < len(value) <= self.most:
            message = f"has {len(value):,} files" if value else "names no file"
            faults.append(FieldFault(path, message, f"1 to {self.most:,} are allowed: split it into several"))
            return None
        faults += _check_places(value, path)
        return {name: self.each.read(value[name], (*path, str(name)), faults) for name in sorted(value, key=str)}


def _check_places(names: Iterable[object], path: Path) -> Iterator[FieldFault]:
    """Names that are no paths of files, or whose folder is a file."""
    known = {name for name in names if isinstance(name, str)}
    for name in names:
        if not isinstance(name, str) or not is_file_path(name):
            leaves = str(name).startswith("/") or ".." in str(name).split("/")
            message = "leaves the folder" if leaves else "is no path of a file"
            yield FieldFault((*path, str(name)), message, PATH_REMEDY)
        for folder in _folders(str(name)):
            if folder in known:
                yield FieldFault((*path, str(name)), f"lies in {folder}, which is a file", "rename one of them")


def is_file_path(text: str) -> bool:
    """Relative, of 1 to 8 parts, none of them `.` or `..`."""
    parts = text.split("/")
    if not (0 < len(text) <= 255 and len(parts) <= 8):
        return False
    return all(_PART.fullmatch(part) is not None and part not in (".", "..") for part in parts)


def _folders(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


@dataclass(frozen=True)
class AnyJson:
    """Any JSON value but null, bounded: it is another program's."""

    most_bytes: int

    @property
    def description(self) -> str:
        most = f"{self.most_bytes >> 10} KiB"
        return f"any value but `null`, of at most {most} as JSON; a secret only as `{{secret_ref: ...}}`"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if value is None:
            faults.append(FieldFault(path, "must be a value", 'for a file that says null write {text: "null"}'))
            return None
        return value if _is_small_json(value, self.most_bytes, path, faults) else None


@dataclass(frozen=True)
class RequirementForm:
    """What is asked of one value; it stays as it was written."""

    @property
    def description(self) -> str:
        return _WAYS

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if value in (EXISTS, ABSENT):
            return value
        if not isinstance(value, Mapping) or len(value) != 1 or not value.keys() <= {EQUALS, AT_LEAST, CONTAINS}:
            faults.append(FieldFault(path, f"must be one of {_WAYS}".replace("`", ""), "write exactly one of them"))
            return None
        ((word, wanted),) = value.items()
        at = (*path, str(word))
        if word == AT_LEAST and (not isinstance(wanted, (int, float)) or isinstance(wanted, bool)):
            faults.append(FieldFault(at, "must be a number", "write {at_least: 1}"))
            return None
        read = AnyJson(WANTED_BYTES).read(wanted, at, faults)
        return None if read is None else {word: read}


@dataclass(frozen=True)
class Open:
    """Any JSON object, bounded: services bring their own settings (format.md 7)."""

    most_bytes: int
    depth: int = 16

    @property
    def description(self) -> str:
        return f"any mapping of at most {self.most_bytes} bytes as JSON; a secret only as `{{secret_ref: ...}}`"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `name: value` lines"))
            return None
        return value if _is_small_json(value, self.most_bytes, path, faults) else None


@dataclass(frozen=True)
class PublicKeys(Open):
    """A JWKS (RFC 7517) of public keys. Private members are refused with all other secrets (resources.py)."""

    @property
    def description(self) -> str:
        return f"a JWKS with 1 to 64 public keys (`RSA`, `EC`, `OKP`), of at most {self.most_bytes} bytes as JSON"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        read = super().read(value, path, faults)
        keys = read.get("keys") if isinstance(read, Mapping) else None
        if read is not None and not (isinstance(keys, (list, tuple)) and 0 < len(keys) <= 64):
            message = "must be a list of 1 to 64 keys"
            faults.append(FieldFault((*path, "keys"), message, "write the JWKS as it is served"))
            return None
        for index, key in enumerate(keys or ()):
            faults += _check_public_key(key, (*path, "keys", index))
        return read


def _check_public_key(key: object, path: Path) -> Iterator[FieldFault]:
    if not isinstance(key, Mapping) or key.get("kty") not in ("RSA", "EC", "OKP"):
        remedy = "use a key pair: whoever can check by a shared key can make tokens"
        yield FieldFault(path, "is no public key (kty RSA, EC or OKP)", remedy)
        return
    for name, value in key.items():
        if not isinstance(value, (str, bool, list, tuple)):
            yield FieldFault((*path, str(name)), "is no member of a key", "a key has texts, and lists of texts")


def _is_small_json(value: object, most_bytes: int, path: Path, faults: list[FieldFault]) -> bool:
    """Whether it is JSON of at most so many bytes; else a fault is added."""
    try:
        size = len(canonical.dumps(value))
    except ValueError as error:
        faults.append(FieldFault(path, str(error), "write it as text, in quotes"))
        return False
    if size > most_bytes:
        faults.append(FieldFault(path, f"has {size} bytes as JSON", f"at most {most_bytes} are allowed"))
        return False
    return True


@dataclass(frozen=True)
class RecordForm:
    """A closed mapping that becomes a dataclass, whose fields were made by `member`."""

    of: type[Any]
    one_of: tuple[str, ...] = ()  # members of which exactly one is given

    @property
    def description(self) -> str:
        return "a mapping: " + ", ".join(f"`{field.name}`" for field in fields(self.of))

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        return self.read_as(value, path, faults)

    def read_as(self, value: object, path: Path, faults: list[FieldFault], **given: object) -> Any:  # noqa: ANN401 - it is whatever class `of` is
        """As `read`, with the values of fields that no member declares."""
        before = len(faults)
        if not isinstance(value, Mapping):
            faults.append(FieldFault(path, "must be a mapping", "write `name: value` lines"))
            return None
        known = {name_of(member): member for member in members(self.of)}
        faults += _unknown(value, known, path)
        if self.one_of and sum(name in value for name in self.one_of) != 1:
            faults.append(FieldFault(path, f"needs one of {', '.join(self.one_of)}", "give exactly one of them"))
        read = {field.name: _member(field, value, path, faults) for field in known.values()}
        return None if len(faults) > before else self.of(**given, **read)


def member(form: FieldForm, about: str, default: object = MISSING, *, name: str = "") -> Any:  # noqa: ANN401 - as dataclasses.field
    """A field of a declared resource. Without a default it must be given. `name`: where Python has the word itself."""
    metadata = {"form": form, "about": about, "name": name}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)
    return field(default=default, metadata=metadata)


def members(of: type[Any]) -> Iterable["Field[Any]"]:
    """The fields that are declared in the specification (`id` is not one)."""
    return [field for field in fields(of) if "form" in field.metadata]


def name_of(each: "Field[Any]") -> str:
    """As it is declared."""
    return str(each.metadata["name"]) or each.name


def is_required(each: "Field[Any]") -> bool:
    return each.default is MISSING and each.default_factory is MISSING


def default_of(each: "Field[Any]") -> object:
    return each.default if each.default_factory is MISSING else each.default_factory()


def _unknown(value: Mapping[Any, object], known: Mapping[str, object], path: Path) -> list[FieldFault]:
    faults = []
    for name in value:
        if name not in known:
            near = difflib.get_close_matches(str(name), list(known), 1)
            remedy = f"did you mean {near[0]}?" if near else "known members: " + ", ".join(known)
            faults.append(FieldFault((*path, str(name)), "is not a member of this", remedy))
    return faults


def _member(each: "Field[Any]", value: Mapping[str, object], path: Path, faults: list[FieldFault]) -> object:
    name = name_of(each)
    if name in value:
        return each.metadata["form"].read(value[name], (*path, name), faults)
    if is_required(each):
        faults.append(FieldFault((*path, name), "is missing", f"add it: {each.metadata['about']}"))
        return None
    return default_of(each)


@dataclass(frozen=True)
class Authorities:
    """Certificates of CAs, as PEM; it stays as it was written."""

    most: int
    most_bytes: int = 32 << 10

    @property
    def description(self) -> str:
        return f"1 to {self.most} certificates of CAs, in PEM"

    def read(self, value: object, path: Path, faults: list[FieldFault]) -> object:
        if value == "":
            return value
        if not lines(self.most_bytes).accepts(value):
            faults.append(
                FieldFault(path, f"must be {self.description}", "write the PEM after `|`, on lines of its own")
            )
            return None
        try:
            found = [Certificate.read(der) for der in pem_chain_to_der(str(value).encode())]
        except BadCertificateError as error:
            faults.append(FieldFault(path, str(error), "copy the PEM again: `openssl x509 -in FILE`"))
            return None
        if len({certificate.fingerprint for certificate in found}) > self.most:
            faults.append(FieldFault(path, f"has {len(found)} certificates", f"at most {self.most} are allowed"))
            return None
        faults += [
            FieldFault(path, f"{certificate.fingerprint} is no CA", "name its CA here, or this one in `certificates`")
            for certificate in found
            if not certificate.is_authority
        ]
        return value


ID_REMEDY = "1 to 64 of a-z 0-9 . _ -, beginning and ending with a letter or digit"
PATH_REMEDY = "1 to 8 parts of A-Z a-z 0-9 . _ - joined by /, none of them . or .., at most 255 bytes"
IDENTIFIER = Scalar("an id", forms.IDENTIFIER.takes)
DIGEST = Scalar("64 lower-case hex digits", forms.DIGEST.takes)
FINGERPRINT = Scalar("`sha256:` and 64 lower-case hex digits", forms.HASH.takes)
BOOLEAN = Scalar("`true` or `false`", forms.BOOLEAN.takes)
ENDPOINT = Scalar("`https://host:port`", forms.ENDPOINT.takes)


def text(most: int) -> Scalar:
    return Scalar(f"text of at most {most} printable characters", forms.text(most).takes)


def lines(most: int) -> Scalar:
    """Text of any characters but NUL: what a file holds."""

    def accepts(value: object) -> bool:
        return forms.CONTENT.takes(value) and len(str(value).encode()) <= most

    return Scalar(f"text of at most {most >> 10} KiB", accepts)


def words(most: int) -> Scalar:
    printable = forms.text(most, 1)
    return Scalar(
        f"text of 1 to {most} printable characters, not all of them spaces",
        lambda value: printable.takes(value) and bool(str(value).strip()),
    )


def integer(least: int, most: int) -> Scalar:
    return Scalar(f"an integer from {least} to {most}", forms.integer(least, most).takes)


def _is_network(value: object) -> bool:
    try:
        return isinstance(value, str) and "/" in value and str(ip_network(value)) == value
    except ValueError:
        return False


def _is_address(value: object) -> bool:
    try:
        return isinstance(value, str) and str(ip_address(value)) == value
    except ValueError:
        return False


ADDRESS = Scalar("an address, as `192.0.2.53` or `2001:db8::53`", _is_address)
DOMAIN = Scalar(
    "a domain in lower case, as `corp.example`, without a dot at its end",
    lambda value: isinstance(value, str) and bool(_DOMAIN.fullmatch(value)),
)
NETWORK = Scalar("a network, as `192.0.2.0/24` or `2001:db8::/32`", _is_network)
HOST_PORT = Scalar("`host:port`", forms.HOST_PORT.takes)
HOST = Scalar("a host name or address", forms.HOST.takes)
