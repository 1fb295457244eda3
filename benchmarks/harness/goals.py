"""goals.toml: which programs a run has, and what their figures are to be."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness.measures import Goal

PLACE = Path(__file__).parents[1] / "goals.toml"


@dataclass(frozen=True)
class Program:
    """`command`: a module of benchmarks/ and its arguments. `across`: what its curves grow with, if it has any.
    `about`: what the page says of it besides.
    """

    name: str
    command: tuple[str, ...]
    what: str
    across: str = ""
    about: str = ""


@dataclass(frozen=True)
class Goals:
    programs: tuple[Program, ...]
    goals: tuple[Goal, ...]


def load(place: Path = PLACE) -> Goals:
    value = tomllib.loads(place.read_text())
    programs = tuple(Program(**{**each, "command": tuple(each["command"])}) for each in value["program"])
    return Goals(programs, tuple(Goal(**each) for each in value["goal"]))
