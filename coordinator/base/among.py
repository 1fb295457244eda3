"""`column IN (these ids)`, with all of them as one value.

    Among(column, ids_value(ids))      of these
    Among(column, ids_by_name("named"))  of those that are given under this name when the statement is carried out

As an array to PostgreSQL, as a text of JSON to SQLite: so the statement's text is the same however many they are, and
is made once. With a parameter for each, SQLAlchemy writes the text anew each time and names each of them: for a batch
of two hundred reports, which asks four times, that took longer than finding their rows.
"""

from collections.abc import Collection, Iterable
from typing import Any

from sqlalchemy import ARRAY, BindParameter, ColumnElement, Dialect, String, bindparam
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import NULLTYPE, TypeDecorator, TypeEngine

from snapshot import canonical


class _Ids(TypeDecorator[Collection[str]]):
    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        kind: TypeEngine[Any] = String() if dialect.name == "sqlite" else ARRAY(String())
        return dialect.type_descriptor(kind)

    def process_bind_param(self, value: Iterable[str] | None, dialect: Dialect) -> object:
        ids = list(value or ())
        if dialect.name != "sqlite":
            return ids
        # SQLite's JSON ends a string at a NUL: as another's id, which is found. PostgreSQL refuses them.
        return canonical.dumps([id_ for id_ in ids if "\0" not in id_]).decode()


def ids_value(ids: Collection[str]) -> BindParameter[Collection[str]]:
    return bindparam(None, ids, type_=_Ids())


def ids_by_name(name: str) -> BindParameter[Collection[str]]:
    return bindparam(name, type_=_Ids())


class Among(FunctionElement[Any]):
    """Of a column and the ids, of which it is one. Without a type: SQLite is told to compare a Boolean with 1, and uses
    no index then.
    """

    inherit_cache = True
    type = NULLTYPE

    def __init__(self, column: ColumnElement[str], ids: BindParameter[Collection[str]]) -> None:
        super().__init__(column, ids)


@compiles(Among)
def _among_array(element: Among, compiler: SQLCompiler, **named: object) -> str:
    column, ids = (compiler.process(clause, **named) for clause in element.clauses)
    return f"{column} = ANY ({ids})"


@compiles(Among, "sqlite")
def _among_json(element: Among, compiler: SQLCompiler, **named: object) -> str:
    column, ids = (compiler.process(clause, **named) for clause in element.clauses)
    return f"{column} IN (SELECT value FROM json_each({ids}))"  # noqa: S608 - a column, and a parameter's mark
