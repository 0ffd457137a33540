"""A program as lines of Python, and what these lines work on."""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import reprise
import torch
import torch.nn.functional as F

from programs import memory
from programs.interference import Interference

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


class State(Interference):
    """A program's variables in one run of it, and what a line may ask for.

    Tensors among the attributes are the program's variables; it keeps others in lists.
    """

    def __init__(self, device: str, session: reprise.Session | None) -> None:
        super().__init__()
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
        self._others: dict[str, reprise.Session] = {}  # by options
        self._beside: concurrent.futures.ThreadPoolExecutor | None = None
        self._promised: list[concurrent.futures.Future[None]] = []
        self._followed = 0  # before the pass
        self.waited = False  # for a build
        self.generators: list[torch.Tensor] = []  # where they were at each pass
        self.steps: collections.Counter[str] = collections.Counter()
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
        self._note("an op raised")
        try:
            call()
        except (IndexError, RuntimeError):
            return
        raise AssertionError("an op did not raise")

    def raises_on_host(self, call: Callable[[], object]) -> None:
        """The same for an op whose failure a GPU does not survive."""
        if self.device == "cpu":
            self.raises(call)

    def attempt(
        self, call: Callable[[], Any], otherwise: torch.Tensor | None = None
    ) -> Any:
        """What an op returns that may fail; the host is told whether it has."""
        try:
            result = call()
        except (IndexError, RuntimeError):
            result = otherwise
            self._note("an op raised that may")
            self.say("raised")
        return result

    def attempt_on_host(
        self, call: Callable[[], torch.Tensor], otherwise: torch.Tensor
    ) -> torch.Tensor:
        """The same for an op whose failure a GPU does not survive."""
        return self.attempt(call, otherwise) if self.device == "cpu" else otherwise

    def seed(self, how: str) -> None:
        """The generators are seeded, of which no op tells: each pass the same, or not."""
        self._note("a generator seeded")
        torch.manual_seed(self.number if how == "anew" else 11)

    def forked(self, call: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What is drawn with other generators, which are as before behind it."""
        self._note("a generator forked")
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            torch.manual_seed(5)
            return call()

    def drawn_again(self, call: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What is drawn twice with the same numbers."""
        self._note("numbers drawn again")
        with torch.random.fork_rng(range(torch.cuda.device_count())):
            call()
        return call()

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

    @contextlib.contextmanager
    def across(self, there: str, back: str) -> Iterator[None]:
        """Ops inside run on the side stream, after all before and before all behind.

        `there` and `back` say how streams are ordered: by "event", "stream", or on
        the host: "host", "host event", "query".
        """
        if not self.streams:
            yield
            return
        self._note(f"a side stream, ordered by {there}")
        self._note(f"back from a side stream, ordered by {back}")
        self.join()
        here, side = torch.cuda.current_stream(), self.streams[0]
        self._order(here, side, there)
        with torch.cuda.stream(side):
            yield
        self._order(side, here, back)

    def _order(self, first: Any, then: Any, how: str) -> None:
        event = torch.cuda.Event()
        match how:
            case "event":
                event.record(first)
                then.wait_event(event)
            case "stream":
                then.wait_stream(first)
            case "host":
                first.synchronize()
            case "host event":
                event.record(first)
                event.synchronize()
            case "query":
                while not first.query():
                    pass
            case _:
                raise ValueError(how)

    def write(self, tensor: torch.Tensor, value: float, way: str) -> None:
        """Somebody else's work fills a tensor (`memory.write`)."""
        self._note(f"written by {way}")
        memory.write(tensor, value, way)

    def replace(self, name: str, value: float, way: str) -> None:
        """Another tensor for a variable, in the memory of the old one if that is free.

        `way` is one of `memory.filled`; "aside": unseen by the session; "viewed": a
        view that is held keeps the memory.
        """
        self._note(f"replaced, {way}")
        old = self.__dict__[name]
        shape, address = old.shape, 0
        if self._session is None:  # under Reprise this would interrupt
            address = old.data_ptr()
        if way == "viewed":
            self.held.append(old[1:])
        self.__dict__[name] = None
        del old
        with self._aside() if way == "aside" else contextlib.nullcontext():
            made = memory.filled(shape, value, self.device, way)
        if self._session is None and made.data_ptr() == address:
            self.steps["addresses taken again"] += 1
        self.__dict__[name] = made

    def overlap(self, view: torch.Tensor) -> None:
        """What `z2` is from now on."""
        self._note("a late view of other memory")
        self.z2 = view

    def apart(self, view: torch.Tensor, written: torch.Tensor) -> torch.Tensor:
        """The view, or a copy where an op writes other columns of the same memory.

        Torch cannot tell that these overlap, so the op does not raise, and on a GPU
        eager is not the same at each run.
        """
        dense = view.is_contiguous() and written.is_contiguous()
        same = (view.storage_offset(), view.stride()) == (
            written.storage_offset(),
            written.stride(),
        )
        if self.device == "cpu" or dense or same:
            return view
        return view.clone() if torch._C._is_alias_of(view, written) else view

    def clear_workspaces(self) -> None:
        """Those of cuBLAS."""
        if self.device == "cuda":
            self._note("workspaces freed")
            torch._C._cuda_clearCublasWorkspaces()

    def off(self) -> None:
        """Ops are not shown to a session, until `on`."""
        self._note("disabled in a pass")
        if self._session is not None:
            reprise.disable()

    def on(self) -> None:
        """The session of this run is enabled (again)."""
        if self._session is not None:
            self._resume()

    def enable(self, **options: Any) -> None:
        """A session with other options has the ops, until `on`."""
        self._note("other options in a pass")
        self._enable(options)

    def _enable(self, options: dict[str, Any]) -> None:
        if self._session is None:
            return
        reprise.enable(self.device, **{"policy": "always", **options})
        if repr(options) not in self._others:  # what programs before this one left
            session = reprise.Session(reprise._native.active())
            session.reset()
            self._others[repr(options)] = session

    def meanwhile(self, what: str) -> None:
        """Another thread does it while this one goes on with its ops."""
        self._note(f"{what} beside ops")
        if self._session is None:
            return
        if self._beside is None:
            self._beside = concurrent.futures.ThreadPoolExecutor(1)
        self._promised.append(self._beside.submit(self._do_beside, what))

    def _do_beside(self, what: str) -> None:
        match what:
            case "reset":
                self._forget()
            case "disable":
                reprise.disable()
                self._resume()
            case "options":
                self._enable({"max_trace_ops": 16})
                self._resume()
            case "wait":
                self.wait()
            case _:
                raise ValueError(what)

    def synchronize(self) -> None:
        if self.device == "cuda":
            torch.cuda.synchronize()

    def empty_cache(self) -> None:
        if self.device == "cuda":
            self._note("cache emptied")
            torch.cuda.empty_cache()

    def wait(self) -> None:
        """Builds are done."""
        self.waited = True
        if self._session is not None:
            for session in (self._session, *self._others.values()):
                assert session.wait(BUILD_TIMEOUT_S)

    def forget(self) -> None:
        """All plans."""
        self._note("reset in a pass")
        self._forget()

    def _forget(self) -> None:
        self.waited = True
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
        with self._aside():
            self.sights.append(self._sight())

    @contextlib.contextmanager
    def _aside(self) -> Iterator[None]:
        if self._session is not None:
            reprise.disable()
        yield
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

    def begin_pass(self, number: int) -> None:
        self.number = number
        self.generators.append(torch.get_rng_state())
        if self.device == "cuda":
            self.generators.append(torch.cuda.get_rng_state())
        if self._session is not None:
            self._followed = self._session.stats().followed

    def meet(self) -> None:
        """What `meanwhile` began is done."""
        for promised in self._promised:
            promised.result(BUILD_TIMEOUT_S)
        self._promised.clear()
        if self._beside is not None:
            self._beside.shutdown()
        self._beside = None

    def counts(self) -> list[reprise.Stats]:
        """Of the sessions, each part of the run that `forget` ends for itself."""
        assert self._session is not None
        others = [session.stats() for session in self._others.values()]
        return [*self._counts, self._session.stats(), *others]

    def _note(self, step: str) -> None:
        """Counts what a line does, and whether that meets a replay's pass."""
        if self._session is None:
            return
        self.steps[step] += 1
        if self._session.stats().followed > self._followed:
            self.steps[f"{step}, in a replay"] += 1

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
