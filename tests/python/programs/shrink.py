"""Makes a failing program small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from programs.program import Program

T = TypeVar("T")


class _Shrinker:
    def __init__(
        self, program: Program, fails: Callable[[Program], bool], attempts: int
    ) -> None:
        self.program = program
        self._fails = fails
        self._attempts = attempts

    def _accept(self, candidate: Program) -> bool:
        if self._attempts <= 0 or candidate == self.program:
            return False
        self._attempts -= 1
        if not self._fails(candidate):
            return False
        self.program = candidate
        return True

    def _take_out(
        self, items: Callable[[], list[T]], put: Callable[[list[T]], Program]
    ) -> bool:
        """Takes ranges of items out while what is left fails."""
        any_gone = False
        size = max(len(items()) // 2, 1)
        while size > 0:
            at = len(items())
            while at > 0:
                begin = max(at - size, 0)
                rest = items()[:begin] + items()[at:]
                any_gone |= self._accept(put(rest))
                at = min(begin, len(items()))
            size //= 2
        return any_gone

    def _passes(self) -> bool:
        return self._take_out(
            lambda: self.program.passes,
            lambda rest: dataclasses.replace(self.program, passes=rest),
        )

    def _texts(self) -> bool:
        """A line of the loop is taken out of all passes."""

        def put(rest: list[str]) -> Program:
            keep = set(rest)
            passes = [[t for t in one if t in keep] for one in self.program.passes]
            return dataclasses.replace(self.program, passes=passes)

        def items() -> list[str]:
            return list(dict.fromkeys(t for one in self.program.passes for t in one))

        return self._take_out(items, put)

    def _setup(self) -> bool:
        return self._take_out(
            lambda: self.program.setup,
            lambda rest: dataclasses.replace(self.program, setup=rest),
        )

    def _single_lines(self) -> bool:
        any_gone = False
        for number in range(len(self.program.passes)):

            def put(rest: list[str], number: int = number) -> Program:
                passes = list(self.program.passes)
                passes[number] = rest
                return dataclasses.replace(self.program, passes=passes)

            any_gone |= self._take_out(
                lambda number=number: self.program.passes[number], put
            )
        return any_gone

    def _style(self) -> bool:
        plain = dataclasses.replace(self.program, options={}, own_stream=False)
        return self._accept(plain)

    def shrink(self) -> Program:
        # What does not depend on when builds are done is easily repeated.
        self._accept(dataclasses.replace(self.program, steady=True))
        self._passes()
        self._texts()
        self._style()
        again = True
        while again and self._attempts > 0:
            again = self._passes() | self._texts() | self._single_lines()
        self._setup()
        return self.program


def shrink(
    program: Program, fails: Callable[[Program], bool], attempts: int = 2000
) -> Program:
    """A smaller program for which `fails` is still true; `attempts` bounds its calls."""
    return _Shrinker(program, fails, attempts).shrink()
