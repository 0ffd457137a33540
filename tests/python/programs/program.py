"""A program as lines of Python, and what these lines work on."""

from __future__ import annotations

import contextlib
import dataclasses
import textwrap
from collections.abc import Callable
from typing import Any

import reprise
import torch
import torch.nn.functional as F

BUILD_TIMEOUT_S = 120.0
_KEPT = "wgtx"  # with what names of weights and inputs begin; others are locals
_LISTS = ("held", "inputs", "indices")


@dataclasses.dataclass(frozen=True)
class Program:
    """Lines are statements on `s`, a `State`; a pass is a list of them.

    Any line may be taken out: what it would have set has a value from `setup`.
    """

    seed: int
    options: dict[str, Any]  #: of the session
    own_stream: bool  #: whether it runs on a stream other than the default one
    setup: list[str]
    passes: list[list[str]]
    steady: bool = False  #: whether builds are waited for after each pass

    def lines(self) -> list[str]:
        """Each text once."""
        return list(dict.fromkeys([*self.setup, *(t for p in self.passes for t in p)]))

    def script(self, device: str) -> str:
        """Runs it again, beside random_programs.py."""
        names: dict[tuple[str, ...], str] = {}
        for one in self.passes:
            names.setdefault(tuple(one), f"pass_{len(names)}")
        parts = [
            "import torch",
            "import torch.nn.functional as F",
            "from random_programs import repeat",
            "",
            _function("setup", self.setup),
            *(_function(name, lines) for lines, name in names.items()),
            f"passes = [{', '.join(names[tuple(one)] for one in self.passes)}]",
            f"repeat(setup, passes, {device!r}, seed={self.seed}, "
            f"options={self.options!r}, own_stream={self.own_stream}, "
            f"steady={self.steady})",
        ]
        return "\n".join(parts) + "\n"


def _function(name: str, lines: list[str] | tuple[str, ...]) -> str:
    body = "\n".join(lines) or "pass"
    return f"def {name}(s):\n{textwrap.indent(body, '    ')}\n"


Step = Callable[["State"], None]


@dataclasses.dataclass(frozen=True)
class Compiled:
    """A program's lines as functions."""

    seed: int
    options: dict[str, Any]
    own_stream: bool
    setup: list[Step]
    passes: list[list[Step]]
    steady: bool


def compiled(program: Program) -> Compiled:
    """Each text is compiled once, however often it occurs."""
    texts = program.lines()
    source = "\n".join(_function(f"f{n}", [text]) for n, text in enumerate(texts))
    scope: dict[str, Any] = {"torch": torch, "F": F}
    exec(source, scope)
    steps: dict[str, Step] = {text: scope[f"f{n}"] for n, text in enumerate(texts)}
    return Compiled(
        program.seed,
        program.options,
        program.own_stream,
        [steps[text] for text in program.setup],
        [[steps[text] for text in one] for one in program.passes],
        program.steady,
    )


@dataclasses.dataclass
class Sight:
    """All live tensors as they were at one moment, end to end, a tensor a dtype."""

    where: str
    names: list[list[tuple[Any, ...]]]  #: elements, strides and dtype, as in `flat`
    flat: list[torch.Tensor]


class State:
    """A program's variables in one run of it, and what a line may ask for.

    Tensors among the attributes are the program's variables; it keeps others in lists.
    """

    def __init__(self, device: str, session: reprise.Session | None) -> None:
        self.device = device
        self.held: list[torch.Tensor] = []
        self.inputs: list[torch.Tensor] = []
        self.indices: list[torch.Tensor] = []
        self.said: list[str] = []
        self.sights: list[Sight] = []
        self.number = -1  # of the pass
        self._session = session
        self._resume: Callable[[], object] = lambda: None
        self._first: dict[str, torch.Tensor] = {}
        self._forked = False
        self._counts: list[reprise.Stats] = []
        self.streams: list[Any] = []
        self._event: Any = None
        if device == "cuda":
            self._event = torch.cuda.Event()

    def serve(self, streams: list[Any], resume: Callable[[], object]) -> None:
        """Streams for `side`, and what enables the session again after `aside`."""
        self.streams, self._resume = streams, resume

    # --- For lines ----------------------------------------------------------------

    def say(self, value: object) -> None:
        """A value that the host was given, compared at the end."""
        self.said.append(repr(value))

    def raises(self, call: Callable[[], object]) -> None:
        """An op that fails, and a program that goes on."""
        try:
            call()
        except RuntimeError:
            return
        raise AssertionError("an op did not raise")

    def clear(self) -> None:
        """Let go of what the pass made."""
        self.join()
        self.__dict__.update(self._first)

    def side(self) -> contextlib.AbstractContextManager[object]:
        """Ops inside run on the side stream, which begins where this one is."""
        if not self.streams:
            return contextlib.nullcontext()
        if not self._forked:
            self._event.record()
            self.streams[0].wait_event(self._event)
            self._forked = True
        return torch.cuda.stream(self.streams[0])

    def lend(self, tensor: torch.Tensor) -> None:
        """The side stream uses a tensor of this one."""
        if self.streams:
            tensor.record_stream(self.streams[0])

    def join(self) -> None:
        """This stream goes on when the side stream is done."""
        if self._forked:
            self._event.record(self.streams[0])
            torch.cuda.current_stream().wait_event(self._event)
        self._forked = False

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def empty_cache(self) -> None:
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def wait(self) -> None:
        """Builds are done."""
        if self._session is not None:
            assert self._session.wait(BUILD_TIMEOUT_S)

    def forget(self) -> None:
        """All plans."""
        if self._session is not None:
            self._counts.append(self._session.stats())
            self._session.reset()

    def look(self) -> None:
        """At all that is live, by ops that the session sees, too."""
        self.join()
        self.sights.append(self._sight())

    def look_aside(self) -> None:
        """At all that is live, while the session is disabled."""
        self.join()
        if self._session is not None:
            reprise.disable()
        self.sights.append(self._sight())
        if self._session is not None:
            self._resume()

    def look_on_host(self) -> None:
        """At all that is live, on the host."""
        self.join()
        sight = self._sight()
        sight.flat = [tensor.cpu() for tensor in sight.flat]
        self.sights.append(sight)

    # --- For the runner -----------------------------------------------------------

    def begin(self) -> None:
        """Setup is done: `clear` comes back to what the locals are now."""
        mine = self.__dict__.items()
        self._first = {
            n: t for n, t in mine if type(t) is torch.Tensor and n[0] not in _KEPT
        }

    def counts(self) -> list[reprise.Stats]:
        """Of the session, each part of the run that `forget` ends for itself."""
        assert self._session is not None
        return [*self._counts, self._session.stats()]

    def _live(self) -> list[tuple[str, torch.Tensor]]:
        live = [i for i in self.__dict__.items() if type(i[1]) is torch.Tensor]
        for name in _LISTS:
            live += [(f"{name}[{n}]", t) for n, t in enumerate(self.__dict__[name])]
        return live

    def _sight(self) -> Sight:
        names: dict[torch.dtype, list[tuple[Any, ...]]] = {}
        flat: dict[torch.dtype, list[torch.Tensor]] = {}
        for name, tensor in self._live():
            names.setdefault(tensor.dtype, []).append(
                (name, tensor.numel(), tensor.stride(), tensor.dtype)
            )
            flat.setdefault(tensor.dtype, []).append(tensor.reshape(-1))
        where = f"in pass {self.number}"
        return Sight(where, list(names.values()), [torch.cat(f) for f in flat.values()])
