"""The personas of the simulated model, as data: what each does wrong, how often, and which words make it heed.

``docs/personas.md`` shows these tables to people; a test holds the two together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import NamedTuple, TypeAlias

from agentnb.errors import UnknownModel, near
from agentnb.models.prices import Price

Alternatives: TypeAlias = tuple[tuple[str, ...], ...]
"""Ways to say something. Each is words, in lower case, that must all be in the text, wherever they stand."""

OPEN_TODOS: Alternatives = (("todos", "open"), ("todos", "remain"), ("incomplete", "todo"), ("not finished",))
"""How a reminder says that there is still something to do."""


class Fault(NamedTuple):
    """One way to fail."""

    option: str
    """Its name, and that of its probability in ``simulated:mixed``."""
    persona: str
    """The persona that has this fault alone."""
    mixed: float
    """Its probability a reply in ``simulated:mixed``, unless said otherwise."""
    heeds: Alternatives
    """What a reminder must say to ask for the act that is missing."""


FAULTS = (
    Fault("forget", "forgetful", 0.2, (("mark", "completed"),)),
    Fault("chat", "chatty", 0.2, (("call", "tool"), ("use", "tool"), ("do the work",), ("execute",))),
    Fault("loop", "looping", 0.1, (("repeat",), ("already",), ("duplicate",))),
    Fault("plan", "planner", 0.1, (("do the work",), ("execute",), ("stop planning",))),
    Fault("stop", "early-stopper", 0.1, OPEN_TODOS),
)
PERSONAS = ("disciplined", *(fault.persona for fault in FAULTS), "mixed")
"""The ways it can behave."""
USUAL_P = 0.5
"""The probability a reply of the fault of a persona that has only one."""
USUAL_HEED = 0.7
"""The probability that it does the right thing after all when the reminder asks for it."""
FREE = Price(Decimal(0), Decimal(0))
"""What it costs, unless said otherwise."""
PRICE = "price"
"""The one option that is no number."""


def says(reminder: str, alternatives: Alternatives) -> bool:
    """Whether the reminder, in lower case, says one of these things."""
    return any(all(word in reminder for word in words) for words in alternatives)


class Drawn(NamedTuple):
    """A fault that came up, and the number that brought it."""

    fault: Fault
    draw: float


@dataclass(frozen=True, slots=True)
class Character:
    """A persona with its numbers. It has no memory: a draw depends on the seed and on how far the conversation is."""

    persona: str
    seed: int
    heed: float
    chances: Mapping[str, float]
    """The probability of each fault it has, by the name of the fault."""

    def drawn(self, turn: int) -> Drawn | None:
        """The fault of this reply, if any. ``turn`` is the number of replies before it."""
        own = [fault for fault in FAULTS if fault.option in self.chances]
        draw = self._number("fault" if self.persona == "mixed" else own[0].option, turn) if own else 1.0
        bound = 0.0
        for fault in own:
            bound += self.chances[fault.option]
            if draw < bound:
                return Drawn(fault, draw)
        return None

    def drawn_to_heed(self, fault: Fault, turn: int) -> float:
        """The number that decides whether it heeds: it does below `heed`."""
        return self._number(f"{fault.option}:heed", turn)

    def _number(self, what: str, turn: int) -> float:
        return Random(f"{self.seed}:{self.persona}:{what}:{turn}").random()  # repeatable on purpose


def options_of(persona: str) -> dict[str, float]:
    """The options of a persona that are numbers, with their usual values. Raises `UnknownModel` if there is no such persona."""
    if persona not in PERSONAS:
        raise UnknownModel(f"simulated: has no persona {persona!r}", near(persona, PERSONAS))
    own: dict[str, float] = {}
    if persona == "mixed":
        own = {fault.option: fault.mixed for fault in FAULTS}
    elif persona != "disciplined":
        own = {"p": USUAL_P}
    return {"seed": 0, "heed": USUAL_HEED, **own, "delay": 0.0}


def read_options(persona: str, given: Mapping[str, str]) -> dict[str, float | Price]:
    """Options as they stand in a name, as numbers, and the price. Raises `UnknownModel` for what is no number, and
    `SettingsError` for what is no price.
    """
    known = options_of(persona)
    options: dict[str, float | Price] = {}
    for name, value in given.items():
        if name == PRICE:
            options[name] = Price.parse(value)
            continue
        _check_known(persona, name, known)
        whole = isinstance(known[name], int)
        try:
            options[name] = int(value) if whole else float(value)
        except ValueError as error:
            kind = "whole number" if whole else "number"
            raise UnknownModel(f"{name}={value!r} of simulated:{persona} is no {kind}", _example(persona, known)) from error
    return options


def checked_options(persona: str, given: Mapping[str, float]) -> dict[str, float]:
    """All options of the persona, those given and the usual. Raises `UnknownModel` for what it has not and what cannot be."""
    known = options_of(persona)
    for name, value in given.items():
        _check_known(persona, name, known)
        _check_value(persona, name, value)
    options = known | dict(given)
    together = sum(options[fault.option] for fault in FAULTS if fault.option in options)
    if together > 1 + 1e-9:
        names = ", ".join(fault.option for fault in FAULTS)
        raise UnknownModel(
            f"The faults of simulated:{persona} add up to {together:g}", f"One draw decides: {names}, together at most 1"
        )
    return options


def _check_known(persona: str, name: str, known: Mapping[str, float]) -> None:
    if name not in known:
        raise UnknownModel(f"simulated:{persona} has no option {name!r}", _example(persona, known))


def _check_value(persona: str, name: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if name == "seed":
        fits, wanted = number and isinstance(value, int), "a whole number"
    else:
        most, unit = (10, " seconds") if name == "delay" else (1, "")
        fits, wanted = number and 0 <= value <= most, f"between 0 and {most}{unit}"  # type: ignore[operator]  # it is one
    if not fits:
        raise UnknownModel(f"{name}={value} of simulated:{persona} is not {wanted}")


def _example(persona: str, known: Mapping[str, float]) -> str:
    usual = "&".join(f"{name}={value:g}" for name, value in known.items())
    return f"It has {', '.join(known)}, {PRICE}; the usual are simulated:{persona}?{usual}&{PRICE}={FREE}"


def query_of(persona: str, options: Mapping[str, float], price: Price) -> str:
    """The options that are not the usual, as they stand in a name behind ``?``."""
    usual = options_of(persona)
    told = [f"{name}={_shown(value)}" for name, value in options.items() if value != usual[name]]
    return "&".join(told if price.is_free else [*told, f"{PRICE}={price}"])


def _shown(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def character(persona: str, options: Mapping[str, float]) -> Character:
    """The persona with these options, which are all it has."""
    if persona == "mixed":
        chances = {fault.option: options[fault.option] for fault in FAULTS}
    else:
        chances = {fault.option: options["p"] for fault in FAULTS if fault.persona == persona}
    return Character(persona, int(options["seed"]), options["heed"], chances)
