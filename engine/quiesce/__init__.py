"""quiesce: one runtime that pauses anything that runs, and always knows what is held, why and by whom.

Define a flow (a `Graph`), open a `Runtime` on a store, and use the verbs: start, pause, resume, answer,
cancel, reset, retry. `runtime.py` is the entry to read; `ARCHITECTURE.md` explains the whole in a page.
"""

from quiesce import errors
from quiesce.agent import (
    action,
    agent,
    ask_human,
    await_,
    checkpoint,
    current_run,
    current_step,
    gather,
    now,
    pause,
    random,
    receive,
    send,
    sleep,
    spawn,
    step,
    uuid4,
)
from quiesce.backend import Capabilities, SuspensionBackend
from quiesce.graph import Concurrency, Graph, JoinInput, NodeContext, NodeRef, Transition
from quiesce.handles import Completed, CurrentNodes, Idle, Outcome, Paused, Run
from quiesce.runs import (
    Ack,
    AnswerAck,
    Episode,
    Event,
    Hold,
    Lock,
    Page,
    PauseAck,
    Receipt,
    ResumeAck,
    RunStatus,
)
from quiesce.runtime import Runtime
from quiesce.states import RunState
from quiesce.store import Store
from quiesce.team.definition import Team
from quiesce.team.jobs import Job
from quiesce.team.turn import Turn
from quiesce.team.values import Message, Task, TurnStatus

__all__ = [
    "Ack",
    "AnswerAck",
    "Capabilities",
    "Completed",
    "Concurrency",
    "CurrentNodes",
    "Episode",
    "Event",
    "Graph",
    "Hold",
    "Idle",
    "Job",
    "JoinInput",
    "Lock",
    "Message",
    "NodeContext",
    "NodeRef",
    "Outcome",
    "Page",
    "PauseAck",
    "Paused",
    "Receipt",
    "ResumeAck",
    "Run",
    "RunState",
    "RunStatus",
    "Runtime",
    "Store",
    "SuspensionBackend",
    "Task",
    "Team",
    "Transition",
    "Turn",
    "TurnStatus",
    "action",
    "agent",
    "ask_human",
    "await_",
    "checkpoint",
    "current_run",
    "current_step",
    "errors",
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
