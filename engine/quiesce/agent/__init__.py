"""Agents: functions that pause in the middle of a statement, and what their bodies may call.

`definition.py` is what a user decorates, `body.py` finds the body that calls, `traps.py` lists every way in
which it may stop, `journal.py` says what of that is recorded. Nothing here suspends anything: a mechanism
(`quiesce_adapters.greenlets`) lends the `Body`.
"""

from quiesce.agent.actions import Action, action
from quiesce.agent.body import StepInfo, Unwind, await_, checkpoint
from quiesce.agent.children import RunHandle, current_run, spawn
from quiesce.agent.definition import Agent, agent
from quiesce.agent.human import ask_human, pause
from quiesce.agent.messages import receive, send
from quiesce.agent.recorded import now, random, sleep, uuid4
from quiesce.agent.steps import Step, StepCall, current_step, gather, step

__all__ = [
    "Action",
    "Agent",
    "RunHandle",
    "Step",
    "StepCall",
    "StepInfo",
    "Unwind",
    "action",
    "agent",
    "ask_human",
    "await_",
    "checkpoint",
    "current_run",
    "current_step",
    "gather",
    "now",
    "pause",
    "random",
    "receive",
    "send",
    "sleep",
    "spawn",
    "step",
    "uuid4",
]
