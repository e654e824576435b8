"""The flows of the contract as agents: what another kind has as nodes and transitions is statements here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from quiesce import agent, pause, spawn, step
from quiesce.agent import Agent
from quiesce.errors import Rejected

from .kinds import Stage

__all__ = ["Agents"]


class Agents:
    """Makes agents; `evaluated` has the names of the places that were come by, in order."""

    name = "agent"

    def __init__(self) -> None:
        self.evaluated: list[str] = []
        self.inner: list[Any] = []
        self._made = 0

    def agent(self, name: str, function: Callable[..., Any]) -> Agent[..., Any]:
        self._made += 1
        return agent(name=f"{name} {self._made}")(function)

    def tree(self, run_id: str) -> list[str]:
        return [run_id]

    def adds(self) -> Any:
        def body(x: int) -> int:
            self.evaluated.append("add")
            return x + 1

        return self.agent("adds", body)

    def works(self, stage: Stage, *, after: Stage | None = None) -> Any:
        @step
        async def work(x: int) -> int:
            self.evaluated.append("work")
            await stage.act()
            return x

        @step
        async def then(x: int) -> int:
            self.evaluated.append("then")
            if after is not None:
                await after.act()
            return x + 1

        async def body(x: int) -> int:
            return await then(await work(x))

        return self.agent("works", body)

    def works_on(self, stage: Stage) -> Any:
        async def body(x: int) -> int:
            try:
                await stage.act()
            except BaseException:
                return x + 1  # what a body must not do
            return x + 1

        return self.agent("works on", body)

    def works_then_asks(self, stage: Stage) -> Any:
        @step
        async def work() -> None:
            self.evaluated.append("work")
            await stage.act()

        async def body(x: object) -> Any:
            await work()
            return self._pause({})

        return self.agent("works, asks", body)

    def works_then_fails(self, stage: Stage, error: Exception) -> Any:
        @step
        async def work() -> None:
            await stage.act()
            raise error

        async def body(x: int) -> int:
            await work()
            return x

        return self.agent("works, fails", body)

    def fails(self, error: Exception, stage: Stage | None = None) -> Any:
        return self._fails(lambda: error, stage)

    def mends(self, errors: list[Exception]) -> Any:
        return self._fails(lambda: errors.pop(0) if errors else None, None)

    def _fails(self, next_error: Callable[[], Exception | None], stage: Stage | None) -> Any:
        @step
        async def first(x: int) -> int:
            self.evaluated.append("first")
            if stage is not None:
                await stage.act()
            return x

        async def body(x: int) -> int:
            x = await first(x)
            self.evaluated.append("second")
            error = next_error()
            if error is not None:
                raise error
            return x + 1

        return self.agent("fails", body)

    def asks(self, *, timeout: float | None = None, **question: Any) -> Any:
        def body(x: object) -> Any:
            self.evaluated.append("ask")
            try:
                answer = self._pause(question)
            except Rejected as no:
                self.evaluated.append("ask")
                return ["rejected", str(no)]
            self.evaluated.append("ask")
            return ["answered", answer]

        return self.agent("asks", body)

    def asks_in_turn(self, times: int, **question: Any) -> Any:
        def body(answers: list[Any]) -> list[Any]:
            for _ in range(times):
                self.evaluated.append("ask")
                answers = [*answers, self._pause(question)]
            return answers

        return self.agent("asks in turn", body)

    def asks_each(self, questions: Sequence[dict[str, Any]]) -> Any:
        children = [self._asker(f"ask{number}", question) for number, question in enumerate(questions, 1)]

        def body(x: object) -> list[Any]:
            handles = [spawn(child, x) for child in children]
            return [handle.result() for handle in handles]

        return self.agent("asks each", body)

    def _asker(self, name: str, question: dict[str, Any]) -> Any:
        def body(x: object) -> Any:
            self.evaluated.append(name)
            answer = self._pause(question)
            self.evaluated.append(name)
            return answer

        self.inner.append(agent(name=name)(body))
        return self.inner[-1]

    def asks_what(self, words: Sequence[str]) -> Any:
        left = list(words)

        def body(x: object) -> Any:
            self.evaluated.append("ask")
            return self._pause({"payload": left.pop(0) if len(left) > 1 else left[0]})

        return self.agent("asks what", body)

    def asks_beside(self, stage: Stage, inner: Any) -> Any:
        return self._beside(stage, inner, [])

    def fails_beside(self, stage: Stage, inner: Any, error: Exception) -> Any:
        return self._beside(stage, inner, [error])

    def _beside(self, stage: Stage, inner: Any, errors: list[Exception]) -> Any:
        @step
        def spread() -> None:
            self.evaluated.append("spread")

        @step
        async def work() -> str:
            self.evaluated.append("work")
            await stage.act()
            if errors:
                raise errors.pop()
            return "worked"

        async def body(x: object) -> list[Any]:
            spread()
            child = spawn(inner, x)
            worked = await work()
            return [child.result(), worked]

        return self.agent("beside", body)

    def encloses(self, inner: Any) -> Any:
        def body(x: object) -> Any:
            return spawn(inner, x).result()

        return self.agent("encloses", body)

    def echoes(self) -> Any:
        def body(x: object) -> object:
            self.evaluated.append("echo")
            return x

        return self.agent("echoes", body)

    def asks_over(self, inner: Any, stage: Stage) -> Any:
        @step
        async def work() -> None:
            await stage.act()

        async def body(x: object) -> list[Any]:
            child = spawn(inner, x)
            await work()
            asked = self._pause({})
            return [child.result(), asked]

        return self.agent("asks over", body)

    def gives(self, value: Any) -> Any:
        @step
        def give() -> object:
            self.evaluated.append("give")
            return value

        def body(x: object) -> int:
            give()
            self.evaluated.append("count")
            return 1

        return self.agent("gives", body)

    @staticmethod
    def _pause(question: dict[str, Any]) -> Any:
        return pause(**({"reason": "which one?"} | question))
