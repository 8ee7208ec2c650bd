"""A model without a language model: it follows the list in the prompt, so that you can watch everything else at work.

``simulated:disciplined`` reads the same requests as any model. Its plan is the newest message with a Markdown list: it adds the
items as todos if it has a tool for that, makes the calls in backticks of one item per round (Python calls of the run's tools,
with literal arguments), and finally answers with their results. Without a list, it introduces itself. The other personas do the
same and fail in documented ways (docs/personas.md). Asked for a plan, each of them plans all these calls at once, and answers
when all have results. Asked for answers that match a JSON Schema, it answers with the newest result that matches, or invents
values. Its tokens are estimates, its cost is 0. ``?delay=0.02`` streams one word every 0.02 seconds, ``?seed=3`` draws other
faults, ``?price=3/15`` sets a price, and ``?verdict=rejected`` sets its verdict on plans that it reviews.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from copy import copy
from typing import Any

from msgspec.structs import replace

from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Message, Text
from agentnb.core.request import Request
from agentnb.core.usage import Usage
from agentnb.errors import UnknownModel
from agentnb.models.capabilities import NO_LANGUAGE_MODEL, Capabilities
from agentnb.models.estimate import about
from agentnb.models.model import Reply, StreamItem
from agentnb.models.prices import Price
from agentnb.models.simulated.faults import COMMIT
from agentnb.models.simulated.observation import Observation
from agentnb.models.simulated.personas import (
    FREE,
    USUAL_HEED,
    VERDICTS,
    Character,
    character,
    check_verdict,
    complete_options,
    query_of,
    says,
)
from agentnb.models.simulated.planned_reply import planned_reply
from agentnb.models.simulated.planner import Move, next_move
from agentnb.models.simulated.shaped_answer import shape_answer


class SimulatedModel:
    """A plan follower.

    ``delay``: seconds between two words. ``seed``: seed of its draws. ``heed``: probability that it acts correctly after all
    when the reminder asks for it. ``p``: probability of its fault per reply; ``mixed``, which has all faults, has ``forget``,
    ``chat``, ``loop``, ``plan`` and ``stop`` instead. ``verdict``: its verdict on plans that it reviews, ``approved``,
    ``rejected`` or ``needs_changes``. ``price``: price of its estimated tokens, for trying out budgets: `FREE` or, for
    example, ``Price.parse("3/15")``. Raises `UnknownModel` for an unknown persona or an invalid value.
    """

    def __init__(
        self,
        persona: str = "disciplined",
        *,
        delay: float = 0.0,
        seed: int = 0,
        heed: float = USUAL_HEED,
        p: float | None = None,
        price: Price = FREE,
        verdict: str = VERDICTS[0],
        **faults: float,
    ) -> None:
        if not isinstance(price, Price):
            raise UnknownModel(f"price={price!r} of simulated:{persona} is not a price", 'Write price=Price.parse("3/15")')
        own = faults if p is None else {"p": p, **faults}
        self._options = complete_options(persona, {"seed": seed, "heed": heed, **own, "delay": delay})
        self._character = character(persona, self._options)
        self.persona = persona
        self.delay = delay
        self.price = price
        self.verdict = check_verdict(persona, verdict)

    @property
    def name(self) -> str:
        """``simulated:PERSONA``, with the options that differ from the defaults."""
        query = query_of(self.persona, self._options, self.price, self.verdict)
        return f"simulated:{self.persona}" + (f"?{query}" if query else "")

    def with_seed(self, seed: int) -> SimulatedModel:
        """Return the same persona with another seed."""
        model = copy(self)
        model._options = {**self._options, "seed": seed}
        model._character = character(self.persona, model._options)
        return model

    def capabilities(self) -> Capabilities:
        """Report no language model (it writes no summaries) and a known price."""
        return NO_LANGUAGE_MODEL

    def used_until_cut(self, request: Request, heard: Message) -> Usage:
        """Estimate the usage of a call whose reply broke off after this message."""
        used = about(request, heard)
        return replace(used, cost=self.price.cost(used))

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the next step of the plan in the request, or the answer after the last step."""
        planning = request.settings.get("planning")
        if request.settings.get("review"):
            notes = "The simulated model gives every plan the same verdict."
            move, metadata = Move("answer", f'{{"verdict": "{self.verdict}", "notes": "{notes}"}}'), dict[str, Any]()
        elif planning is not None:
            move, metadata = planned_reply(request, planning), {}
        else:
            move, metadata = _decide(self._character, Observation(request))
        schema = request.settings.get("output_schema")
        text = move.text if schema is None else shape_answer(move, schema, request)
        message = Message("assistant", (Text(text), *move.calls))
        if self.delay:  # otherwise nobody would see the words come
            for word in re.findall(r"\S+\s*|\s+", message.text):
                await asyncio.sleep(self.delay)
                yield TextDelta(word)
        usage = self.used_until_cut(request, message)
        yield Reply(message, usage, stop_reason="tool_use" if message.calls else "end_turn", metadata=metadata)


def _decide(who: Character, observation: Observation) -> tuple[Move, dict[str, Any]]:
    """Return the move and, if a fault was drawn that applies here, metadata on how it was chosen."""
    right = next_move(observation)
    drawn = who.draw_fault(observation.turn)
    wrong = COMMIT[drawn.fault.option](observation, right) if drawn else None
    if drawn is None or wrong is None:
        return right, {}
    asked = says(observation.reminder, drawn.fault.heeds)
    heed = who.draw_heed(drawn.fault, observation.turn)
    heeded = heed < who.heed if asked else None
    if heeded and drawn.fault.option == "forget":
        right = next_move(observation, "all")
    metadata = {
        "persona": who.persona,
        "fault": drawn.fault.option,
        "asked": asked,
        "heeded": heeded,
        "draw": round(drawn.draw, 4),
        "heed": round(heed, 4),
    }
    return right if heeded else wrong, metadata
