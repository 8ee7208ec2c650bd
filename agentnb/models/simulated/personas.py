"""The personas of the simulated model, as data: their faults, their probabilities, and the words that they heed.

``docs/personas.md`` documents these tables; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import NamedTuple, TypeAlias

from agentnb.errors import UnknownModel, suggest_names
from agentnb.models.prices import Price

Alternatives: TypeAlias = tuple[tuple[str, ...], ...]
"""Alternative phrasings. Each is a set of lower-case words that must all occur somewhere in the text."""

OPEN_TODOS: Alternatives = (("todos", "open"), ("todos", "remain"), ("incomplete", "todo"), ("not finished",))
"""Phrasings of a reminder that todos are still open."""


class Fault(NamedTuple):
    """A fault of the simulated model."""

    option: str
    """Its name, also used as the option for its probability in ``simulated:mixed``."""
    persona: str
    """The persona that has only this fault."""
    mixed: float
    """Its default probability per reply in ``simulated:mixed``."""
    heeds: Alternatives
    """Words of a reminder that request the missing action."""


FAULTS = (
    Fault("forget", "forgetful", 0.2, (("mark", "completed"),)),
    Fault("chat", "chatty", 0.2, (("call", "tool"), ("use", "tool"), ("do the work",), ("execute",))),
    Fault("loop", "looping", 0.1, (("repeat",), ("already",), ("duplicate",))),
    Fault("plan", "planner", 0.1, (("do the work",), ("execute",), ("stop planning",))),
    Fault("stop", "early-stopper", 0.1, OPEN_TODOS),
)
PERSONAS = ("disciplined", *(fault.persona for fault in FAULTS), "mixed")
"""All personas."""
USUAL_P = 0.5
"""Default probability of the fault per reply, for personas with only one."""
USUAL_HEED = 0.7
"""Default probability that a persona acts correctly after all when the reminder asks for it."""
FREE = Price(Decimal(0), Decimal(0))
"""The default price."""
PRICE, VERDICT = "price", "verdict"
"""The only options that are not numbers."""
VERDICTS = ("approved", "rejected", "needs_changes")
"""Verdicts on plans that a persona reviews; the first is the default."""


def says(reminder: str, alternatives: Alternatives) -> bool:
    """Return whether the reminder, in lower case, contains any of these alternatives."""
    return any(all(word in reminder for word in words) for words in alternatives)


class Drawn(NamedTuple):
    """A fault that was drawn, and the random number that drew it."""

    fault: Fault
    draw: float


@dataclass(frozen=True, slots=True)
class Character:
    """A persona with its probabilities. It has no memory: draws depend on the seed and the length of the conversation."""

    persona: str
    seed: int
    heed: float
    chances: Mapping[str, float]
    """Probabilities of its faults, by name."""

    def draw_fault(self, turn: int) -> Drawn | None:
        """Draw the fault of this reply, if any. ``turn``: the number of replies before it."""
        own = [fault for fault in FAULTS if fault.option in self.chances]
        draw = self._number("fault" if self.persona == "mixed" else own[0].option, turn) if own else 1.0
        bound = 0.0
        for fault in own:
            bound += self.chances[fault.option]
            if draw < bound:
                return Drawn(fault, draw)
        return None

    def draw_heed(self, fault: Fault, turn: int) -> float:
        """Draw the number that decides whether the persona heeds the reminder: it does so below `heed`."""
        return self._number(f"{fault.option}:heed", turn)

    def _number(self, what: str, turn: int) -> float:
        return Random(f"{self.seed}:{self.persona}:{what}:{turn}").random()  # repeatable on purpose


def options_of(persona: str) -> dict[str, float]:
    """Return a persona's numeric options with their defaults. Raises `UnknownModel` for an unknown persona."""
    if persona not in PERSONAS:
        raise UnknownModel(f"simulated has no persona {persona!r}", suggest_names(persona, PERSONAS))
    own: dict[str, float] = {}
    if persona == "mixed":
        own = {fault.option: fault.mixed for fault in FAULTS}
    elif persona != "disciplined":
        own = {"p": USUAL_P}
    return {"seed": 0, "heed": USUAL_HEED, **own, "delay": 0.0}


def read_options(persona: str, given: Mapping[str, str]) -> dict[str, float | Price | str]:
    """Parse the options in a name: numbers, and the price.

    Raises `UnknownModel` for an unknown option or an invalid number, `SettingsError` for an invalid price.
    """
    defaults = options_of(persona)
    options: dict[str, float | Price | str] = {}
    for name, value in given.items():
        if name == PRICE:
            options[name] = Price.parse(value)
            continue
        if name == VERDICT:
            options[name] = check_verdict(persona, value)
            continue
        _check_known(persona, name, defaults)
        whole = isinstance(defaults[name], int)
        try:
            options[name] = int(value) if whole else float(value)
        except ValueError as error:
            kind = "whole number" if whole else "number"
            raise UnknownModel(
                f"{name}={value!r} of simulated:{persona} must be a {kind}", _example(persona, defaults)
            ) from error
    return options


def complete_options(persona: str, given: Mapping[str, float]) -> dict[str, float]:
    """Return all options of the persona, with defaults for missing ones. Raises `UnknownModel` for unknown options and invalid
    values.
    """
    defaults = options_of(persona)
    for name, value in given.items():
        _check_known(persona, name, defaults)
        _check_value(persona, name, value)
    options = defaults | dict(given)
    together = sum(options[fault.option] for fault in FAULTS if fault.option in options)
    if together > 1 + 1e-9:
        names = ", ".join(fault.option for fault in FAULTS)
        raise UnknownModel(
            f"The fault probabilities of simulated:{persona} add up to {together:g}",
            f"All faults share one draw: {names} may add up to at most 1",
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
        fits, wanted = number and 0 <= value <= most, f"between 0 and {most}{unit}"  # type: ignore[operator]  # a number by then
    if not fits:
        raise UnknownModel(f"{name}={value} of simulated:{persona} must be {wanted}")


def _example(persona: str, known: Mapping[str, float]) -> str:
    usual = "&".join(f"{name}={value:g}" for name, value in known.items())
    return f"Its options and their defaults are simulated:{persona}?{usual}&{PRICE}={FREE}"


def check_verdict(persona: str, verdict: str) -> str:
    """Return a persona's verdict on plans. Raises `UnknownModel` for an unknown word."""
    if verdict not in VERDICTS:
        problem = f"verdict={verdict!r} of simulated:{persona} is not a verdict about a plan"
        raise UnknownModel(problem, suggest_names(str(verdict), VERDICTS))
    return verdict


def query_of(persona: str, options: Mapping[str, float], price: Price, verdict: str = VERDICTS[0]) -> str:
    """Return the options that differ from the defaults, as written in a name after ``?``."""
    usual = options_of(persona)
    pieces = [f"{name}={_format_number(value)}" for name, value in options.items() if value != usual[name]]
    pieces += [] if verdict == VERDICTS[0] else [f"{VERDICT}={verdict}"]
    return "&".join(pieces if price.is_free else [*pieces, f"{PRICE}={price}"])


def _format_number(value: float) -> str:
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def character(persona: str, options: Mapping[str, float]) -> Character:
    """Return the persona with these options, which must be complete."""
    if persona == "mixed":
        chances = {fault.option: options[fault.option] for fault in FAULTS}
    else:
        chances = {fault.option: options["p"] for fault in FAULTS if fault.persona == persona}
    return Character(persona, int(options["seed"]), options["heed"], chances)
