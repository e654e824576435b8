"""What is a trap called in the journal, and what of it must be the same when the body is executed again?

What the body decided is part of its digest: a question with its type, the run that a message goes to. What
follows from the moment is not: a deadline is counted from now, and now is another one then.

Source: spec agent, "Steps and the journal" (each entry has position, kind, name and a digest).
"""

from __future__ import annotations

from typing import Any

from quiesce import codec
from quiesce.agent.traps import Act, Ask, Command, Draw, Look, Receive, Send, Sleep, Spawn, Trap, Wait
from quiesce.rules.requests import UNSET

__all__ = ["digest_of", "name_of"]


def name_of(trap: Trap) -> str:
    """What a person calls this place."""
    match trap:
        case Ask(reason, key=key):
            return key or reason or "pause"
        case Receive():
            return "receive"
        case Send(run_id):
            return run_id
        case Sleep():
            return "sleep"
        case Spawn(flow):
            return str(flow.name)
        case Wait(run_id):
            return run_id
        case Act(verb, run_id):
            return f"{verb} {run_id}"
        case Draw(what) | Look(what):
            return what
        case Command(order):
            return str(order.verb)
    raise AssertionError(f"{type(trap).__name__} has no place")


def digest_of(trap: Trap) -> str:
    """A short name for what the body decided about this trap.

    Raises:
        NotSerializable: what it hands over cannot be stored.
    """
    facts: Any = None
    match trap:
        case Ask(reason, expects, payload, key):
            facts = [
                reason,
                codec.schema(expects),
                codec.jsonable(payload, place="payload of the question"),
                key,
            ]
        case Receive(deadline):
            facts = deadline is None
        case Send(_, message):
            return codec.digest(codec.encode(message, place="message"))
        case Sleep(until, seconds):
            facts = [None if until is None else until.isoformat(), seconds]
        case Spawn(flow):
            facts = flow.kind  # its input is checked and stored by the start itself
        case Wait(_, until):
            facts = until
        case Command(order):
            arguments = order.arguments()
            if order.packs is not None:
                packed = codec.encode(arguments.pop(order.packs), place=order.packs)
                arguments["packed"] = codec.digest(packed)
            facts = [order.verb, codec.jsonable(arguments, place="order")]
        case Act(_, _, arguments):
            facts = [None if item is UNSET else codec.jsonable(item, place="argument") for item in arguments]
    return codec.digest(codec.encode(facts))
