"""An agent of pydantic-ai whose tool needs approval: the whole of it pauses inside the tool's call.

    pip install 'quiesce[pydantic-ai]'
    python examples/pydantic_ai_desk.py                                the story
    flowctl run examples/pydantic_ai_desk.py:assistant 'refund o7'     exits with 75

The model is pydantic-ai's offline `FunctionModel`, so that no key is needed; any other model will do. What
the model says is a step: a new process does not ask it again, it gets what it said. The tool is our action: a
person sees the arguments that the model chose, and the answer lets the tool's call go on, in the middle of
pydantic-ai's own loop, in this process or in another.

pydantic-ai runs models and tools in tasks of its own, and only the body may pause. So the tasks hand their
calls to the body (`Counter`), which carries them out, one after the other.
"""

import inspect
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

try:
    from pydantic_ai import Agent, ModelMessagesTypeAdapter
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
    from pydantic_ai.models import Model, ModelRequestParameters
    from pydantic_ai.models.function import AgentInfo, FunctionModel
    from pydantic_ai.models.wrapper import WrapperModel
    from pydantic_ai.settings import ModelSettings
except ImportError:
    raise SystemExit("this example needs pydantic-ai: pip install 'quiesce[pydantic-ai]'") from None

from quiesce import Completed, Paused, Run, Runtime, action, agent, step
from quiesce.errors import Rejected


@action
def refund(order: str, amount: int) -> str:
    print(f"paying {amount} for {order}")
    return f"refunded {amount} for {order}"


class Counter:
    """Where tasks bring calls that may pause, and the body carries them out."""

    def __init__(self) -> None:
        self._bring, self._take = anyio.create_memory_object_stream[tuple[Callable[[], Any], "Ticket"]]()

    async def bring(self, call: Callable[[], Any]) -> Any:
        """In a task: the value of this call, or its error."""
        ticket = Ticket()
        await self._bring.send((call, ticket))
        await ticket.done.wait()
        if ticket.error is not None:
            raise ticket.error
        return ticket.value

    async def serve(self, work: Awaitable[Any]) -> Any:
        """In the body: carry out what is brought, until this work is done; returns its value."""
        value: Any = None

        async def worker() -> None:
            nonlocal value
            with self._bring:
                value = await work

        async with anyio.create_task_group() as group, self._take:
            group.start_soon(worker)
            async for call, ticket in self._take:
                try:
                    ticket.value = call()
                    if inspect.isawaitable(ticket.value):
                        ticket.value = await ticket.value
                except Exception as error:
                    ticket.error = error
                ticket.done.set()
        return value


class Ticket:
    def __init__(self) -> None:
        self.done = anyio.Event()
        self.value: Any = None
        self.error: Exception | None = None


class Recorded(WrapperModel):
    """A model whose replies are steps, told apart by what was said so far."""

    def __init__(self, wrapped: Model, counter: Counter) -> None:
        super().__init__(wrapped)
        self._counter = counter

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        async def ask_model(said: list[str]) -> str:
            reply = await self.wrapped.request(messages, model_settings, model_request_parameters)
            return ModelMessagesTypeAdapter.dump_json([reply]).decode()

        said = [
            f"{part.part_kind}: {getattr(part, 'content', '')}" for item in messages for part in item.parts
        ]
        kept = await self._counter.bring(lambda: step(ask_model, said))
        (reply,) = ModelMessagesTypeAdapter.validate_json(kept)
        assert isinstance(reply, ModelResponse)
        return reply


def offline(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stands for a model: it calls the tool, then says what came of it."""
    print("the model is asked")
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        return ModelResponse(parts=[TextPart(f"Done: {last.content}.")])
    order = str(getattr(last, "content", "")).rpartition(" ")[2]
    return ModelResponse(parts=[ToolCallPart("refund", {"order": order, "amount": 30})])


def clerk(model: Model, counter: Counter) -> "Agent[None, str]":
    made: Agent[None, str] = Agent(Recorded(model, counter))

    @made.tool_plain(name="refund")
    async def refund_tool(order: str, amount: int) -> str:
        """Refund an order."""
        try:
            return str(await counter.bring(lambda: refund(order, amount)))  # here everything pauses
        except Rejected as no:
            return f"nothing, since a person refused: {no}"

    return made


@agent
async def assistant(request: str) -> str:
    counter = Counter()
    reply = await counter.serve(clerk(FunctionModel(offline), counter).run(request))
    return str(reply.output)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with Runtime(Path(folder, "flows.db")) as rt:
            outcome = await rt.run(assistant, "refund o7", run_id="request")
            assert isinstance(outcome, Paused)
            print(outcome.reason)
        async with Runtime(Path(folder, "flows.db")) as rt:  # as a new process would
            run = Run(rt, "request")
            await run.answer({"approve": True, "arguments": {"amount": 20}}, actor="alice")
            match await run.settled():
                case Completed(value):
                    print(value)


if __name__ == "__main__":
    anyio.run(main)
