"""One row of README's first table, measured in this process (see front_page.py).

    python perf/front_rows.py --program model:gpt2_bf16 --commit COMMIT

A program is ``model:NAME`` (a model of zoo.py, without gradients, each call on another
input) or ``step:NAME`` (a training step of training.py with AdamW, fused, each call on
another batch). The ways to run it:

- ``eager``, and ``control``: eager a second time;
- ``enable``: under ``reprise.enable()`` without options;
- ``region``: ``reprise.region`` of the model or of the step, with nothing enabled;
- ``graph``: a hand-written CUDA graph, which copies its input;
- ``compile`` and ``reduce_overhead``: ``torch.compile`` of the same function that
  ``region`` gets, in its default mode and in ``mode="reduce-overhead"``.

``enable`` and ``region`` run with the policy that a user gets who gives no option, which
the record names. First the ways are called one after another, from their first call on,
then all are timed in interleaved rounds, each call waited for, then bits are compared.
Each compilation begins with empty caches on disk.

Writes JSON lines to stdout: ``{"where": ...}`` (gpu, driver, torch, commit, dirty) once
its imports are done, ``{"stage": ...}`` while it measures, ``{"records": [...]}`` at
the end. It begins to measure when a line of stdin gives the seconds that it may take.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib
import itertools
import signal
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import children
import models
import regions
import reprise
import torch
import training
import zoo

DEVICE = "cuda"
OURS = ("enable", "region")
COMPILED = ("compile", "reduce_overhead")
WAYS = ("eager", "control", *OURS, "graph", *COMPILED)
FAST = 1.25  # a fast call takes at most so many times the median of later ones


@dataclasses.dataclass(frozen=True)
class Effort:
    """How long a row is measured."""

    first_seconds: float = 3.0  # of first calls of our ways, at least
    compiled_seconds: float = 1.0  # of torch.compile's, behind the first
    first_calls: int = 20  # of each way, at least
    settle_seconds: float = 1.5
    rounds: int = 15
    passes: int = 8
    reserve_seconds: float = 5.0  # for all that comes after the compilations


MODEL = Effort(reserve_seconds=14.0)
# A step is slow, and learning may take a share of the time only (0052).
STEP = Effort(first_seconds=6.0, settle_seconds=6.0, reserve_seconds=40.0)
QUICK = Effort(
    first_seconds=0.5,
    compiled_seconds=0.2,
    first_calls=8,
    settle_seconds=0.3,
    rounds=3,
    passes=3,
)


class WayFailedError(RuntimeError):
    """A call of one way raised."""

    def __init__(self, way: str, error: Exception) -> None:
        super().__init__(said(error))
        self.way = way


class Way(models.Mode):
    """One way of running a program; its session is the one of ``reprise.enable()``.

    ``replays()`` counts what was replayed so far. Of a way with ``overwrites`` the next
    call writes where the result of the one before is.
    """

    def __init__(
        self,
        name: str,
        run: models.Run,
        replays: Callable[[], int] | None = None,
        overwrites: bool = False,
    ) -> None:
        def guarded(new: tuple[torch.Tensor, ...]) -> torch.Tensor:
            try:
                return run(new)
            except Exception as error:
                raise WayFailedError(name, error) from error

        super().__init__(guarded)
        self.name = name
        self.replays = replays
        self.overwrites = overwrites

    def __enter__(self) -> Way:
        if self.name == "enable":
            reprise.enable(DEVICE)  # no option: what a user gets
        return self

    def __exit__(self, *_: object) -> None:
        if self.name == "enable":
            reprise.disable()


@dataclasses.dataclass
class Program:
    """What a row measures.

    ``prepare(way)`` builds what the way of that name is to run, which no user of it waits
    for: its own model and optimizer, if it has some. ``make(way)`` gives the way, before
    its first call. ``bits(way)`` gives whether a way's results are eager's, and how many
    tensors were compared.
    """

    inputs: list[tuple[torch.Tensor, ...]]
    prepare: Callable[[str], object]
    make: Callable[[str], Way]
    bits: Callable[[Way], tuple[bool, int]]


def said(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, WayFailedError):
        return str(error)
    text = str(error).strip()
    first = text.splitlines()[0] if text else ""
    return f"{type(error).__name__}: {first}"[:300]


def way_of(
    name: str,
    function: Callable[..., torch.Tensor],
    graph: Callable[[], models.Run],
) -> Way:
    """The way of that name to call ``function``; ``graph()`` captures it."""
    if name == "region":
        fast: Any = reprise.region(function)
        return Way(name, lambda new: fast(*new), lambda: fast.explain().replayed)
    if name == "graph":
        return Way(name, graph(), overwrites=True)
    if name in COMPILED:
        mode = "default" if name == "compile" else "reduce-overhead"
        run = models.compiled_at_first_call(function, mode)
        return Way(name, run, overwrites=name == "reduce_overhead")
    replays = (lambda: reprise.stats().replays) if name == "enable" else None
    return Way(name, lambda new: function(*new), replays)


def of_model(
    module: torch.nn.Module, inputs: Callable[[], tuple[torch.Tensor, ...]]
) -> Program:
    """A model: its outputs are compared."""

    def make(name: str) -> Way:
        return way_of(name, module, lambda: models.hand_written(module, inputs()))

    def bits(way: Way) -> tuple[bool, int]:
        looked_at = way
        if way.overwrites:  # else outputs are kept to the end as they are
            looked_at = Way(way.name, lambda new: way.run(new).clone())
        return models.bits_of_eager(module, inputs, looked_at), models.KEPT

    given = [inputs() for _ in range(models.INPUTS)]
    return Program(given, lambda _: None, make, bits)


class Start:
    """The state in which a training program begins, to go back to it.

    It is written where the tensors are, so that whoever knows their addresses still
    does. Adam's state is zeros at first; a gradient is written by each step.
    """

    def __init__(self, program: training.Program) -> None:
        self._program = program
        self._values = [value.clone() for value in self._tensors()]

    def _tensors(self) -> Iterator[torch.Tensor]:
        for part in self._program.parts:
            yield from part.state_dict().values()

    @torch.no_grad()
    def restore(self) -> None:
        """Go back."""
        for tensor, value in zip(self._tensors(), self._values, strict=True):
            tensor.copy_(value)
        for optimizer in self._program.optimizers:
            for values in optimizer.state.values():
                for value in values.values():
                    if isinstance(value, torch.Tensor):
                        value.zero_()


def of_step(create: Callable[[bool], training.Program]) -> Program:
    """A training step: all that steps leave is compared.

    ``create(capturable)`` makes the training program from its seed. Each way has one
    of its own, of which it goes on with the same weights; eager and its control share.
    """
    made: dict[str, tuple[training.Program, Start]] = {}

    def program_of(name: str) -> training.Program:
        name = "eager" if name == "control" else name
        if name not in made:
            program = create(name == "graph")
            made[name] = program, Start(program)
        return made[name][0]

    def make(name: str) -> Way:
        program = program_of(name)
        assert program.on_batch is not None
        return way_of(name, program.on_batch, lambda: regions.whole_step(program))

    def left(way: Way) -> list[torch.Tensor]:
        program, start = made["eager" if way.name == "control" else way.name]
        start.restore()
        torch.manual_seed(1)
        losses = []
        with way:
            for i in range(training.STEPS):
                batch = program.batches[i % training.BATCHES]
                losses.append(way.run(batch).clone())
            models.synchronize()
        # Copies on the device: the state of a way is some gigabytes.
        state = [value.detach().clone() for value in program.state()]
        return [*losses, *state, torch.cuda.get_rng_state()]

    expected: list[torch.Tensor] = []

    def bits(way: Way) -> tuple[bool, int]:
        if not expected:
            expected.extend(left(eager))
        found = left(way)
        return models.all_same(found, expected), len(expected)

    batches = program_of("eager").batches
    eager = make("eager")
    inputs = [batches[i % training.BATCHES] for i in range(models.INPUTS)]
    return Program(inputs, program_of, make, bits)


def program(name: str) -> Program:
    """The program of that name, on the GPU."""
    kind, _, which = name.partition(":")
    if kind == "model":
        torch.manual_seed(0)
        return of_model(*zoo.WORKLOADS[which].make(torch.device(DEVICE)))

    def create(capturable: bool) -> training.Program:
        torch.manual_seed(0)
        return training.PROGRAMS[which](
            lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True, capturable=capturable)
        )

    return of_step(create)


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """What is inside raises TimeoutError after so many seconds; in the main thread."""

    def late(*_: object) -> None:
        raise TimeoutError(f"it was not done after {seconds:.0f} s")

    if seconds <= 0:
        raise TimeoutError("no time was left for it")
    before = signal.signal(signal.SIGALRM, late)
    # Again each 5 s: what the first raises may be swallowed by what it interrupts.
    signal.setitimer(signal.ITIMER_REAL, seconds, 5.0)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


Calls = list[tuple[float, float]]  # when each was over, and what it took, in seconds


def first_calls(
    make: Callable[[], Way],
    inputs: list[tuple[torch.Tensor, ...]],
    seconds: float,
    least: int,
) -> tuple[Way, Calls]:
    """Make a way and call it, for so many seconds behind its first call or longer.

    It is called at least so often.
    """
    turns = itertools.cycle(inputs)
    calls: Calls = []
    begin = time.perf_counter()
    way = make()
    with way:
        while len(calls) < least or calls[-1][0] < calls[0][0] + seconds:
            before = time.perf_counter()
            way.run(next(turns))
            models.synchronize()
            after = time.perf_counter()
            calls.append((after - begin, after - before))
    return way, calls


def first_fast(calls: Calls, steady: float) -> tuple[int, float] | None:
    """Number of the first fast call, from 1, and the seconds until it was over."""
    for number, (over, took) in enumerate(calls, 1):
        if took <= FAST * steady:
            return number, over
    return None


def forget() -> None:
    """Have Reprise forget what it learned."""
    reprise.enable(DEVICE)
    reprise.reset()
    reprise.disable()


def prepare_compile(stack: contextlib.ExitStack) -> float:
    """Seconds of what torch.compile does once a process: imports, helper processes."""
    begin = time.perf_counter()
    from torch._inductor.utils import fresh_cache

    stack.enter_context(fresh_cache())
    x = torch.zeros(8, device=DEVICE)
    torch.compile(lambda y: y + 1)(x)
    models.synchronize()
    return time.perf_counter() - begin


class Measurement:
    """One row: its ways are made, timed and compared; one that fails says why."""

    def __init__(
        self,
        program: Program,
        effort: Effort,
        ends: float,
        say: Callable[[str], None],
    ) -> None:
        """``ends`` is when it should be over, by ``time.monotonic``."""
        self._program = program
        self._effort = effort
        self._ends = ends
        self._say = say
        self._ways: dict[str, Way] = {}
        self._firsts: dict[str, Calls] = {}
        self._failed: dict[str, str] = {}
        self._prepared: dict[str, float] = {}

    def run(self) -> list[dict[str, Any]]:
        """Give a record of each way."""
        with contextlib.ExitStack() as stack:
            for name in WAYS:
                self._say(name)
                try:
                    self._begin(name, stack)
                except Exception as error:  # one way must not hide the others
                    reprise.disable()
                    self._failed[name] = said(error)
                    if name == "eager":
                        raise
            self._say("settling")
            for name in OURS:
                self._settle(name)
            self._say("rounds")
            rounds = self._rounds()
            records = []
            for name in WAYS:
                self._say(f"{name}: bits")
                records.append(self._record(name, rounds))
            return records

    def _begin(self, name: str, stack: contextlib.ExitStack) -> None:
        """Make a way and keep its first calls."""
        effort = self._effort
        make, inputs = self._program.make, self._program.inputs
        if name == "enable":
            took = 1e-3 * models.prepare()
            self._prepared |= dict.fromkeys(OURS, took)
        if name == "region":
            forget()  # what `enable` learned is not the region's
        self._program.prepare(name)
        models.synchronize()
        if name not in COMPILED:
            seconds = effort.first_seconds if name in OURS else 0.0
            self._ways[name], self._firsts[name] = first_calls(
                lambda: make(name), inputs, seconds, effort.first_calls
            )
            return
        left = self._ends - time.monotonic() - effort.reserve_seconds
        with time_limit(0.6 * left if name == COMPILED[0] else left):
            if "compile" not in self._prepared:
                took = prepare_compile(stack)
                self._prepared |= dict.fromkeys(COMPILED, took)
            from torch._inductor.utils import fresh_cache

            stack.enter_context(fresh_cache())
            self._ways[name], self._firsts[name] = first_calls(
                lambda: make(name),
                inputs,
                effort.compiled_seconds,
                effort.first_calls,
            )

    def _settle(self, name: str) -> None:
        """Call one of our ways until it has learned again what was forgotten."""
        if name not in self._ways:
            return
        try:
            first_calls(
                lambda: self._ways[name],
                self._program.inputs,
                self._effort.settle_seconds,
                self._effort.first_calls,
            )
        except WayFailedError as error:
            self._drop(error)

    def _drop(self, error: WayFailedError) -> None:
        """A way that raised is measured no more."""
        if error.way in ("eager", "control"):
            raise error
        self._failed[error.way] = str(error)
        del self._ways[error.way]

    def _rounds(self) -> models.Rounds:
        """Rounds of all ways that never raise in them."""
        while True:
            try:
                return models.Rounds(
                    dict(self._ways),
                    self._program.inputs,
                    self._effort.rounds,
                    self._effort.passes,
                )
            except WayFailedError as error:
                self._drop(error)

    def _record(self, name: str, rounds: models.Rounds) -> dict[str, Any]:
        """What is written of a way."""
        record: dict[str, Any] = {"mode": name, "policy": None}
        if name in OURS:
            record["policy"] = default_policy()
        if name not in self._ways:
            return record | {"error": self._failed[name]}
        way = self._ways[name]
        before = way.replays() if way.replays else None
        try:
            same, compared = self._program.bits(way)
        except Exception as error:
            reprise.disable()
            if name in ("eager", "control"):
                raise
            return record | {"error": said(error)}
        steady = statistics.median(rounds.medians[name])
        calls = self._firsts[name]
        fast = first_fast(calls, steady)
        return record | {
            "median_us": 1e6 * steady,
            **rounds.ratio("ratio", "eager", name),
            "first_fast_call": fast[0] if fast else None,
            "first_fast_s": fast[1] if fast else None,
            "first_calls": len(calls),
            "first_calls_s": calls[-1][0],
            "prepare_s": self._prepared.get(name, 0.0),
            "bits": same,
            "compared": compared,
            "replays": way.replays() - before if way.replays else None,
        }


def default_policy() -> str:
    """The policy of ``reprise.enable()`` without options."""
    return next(o.default for o in reprise.options() if o.name == "policy")


def main() -> None:
    """Measure one row."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--dirty", action="store_true")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    tell = children.teller()  # what models and compilers print goes to stderr
    kind = arguments.program.partition(":")[0]
    for needed in ("torchvision", "timm", "transformers"):
        with contextlib.suppress(ImportError):  # its program says that it is missing
            importlib.import_module(needed)
    where = models.environment(arguments)
    del where["command"]  # the one that a user gave is front_page.py's
    tell(where=where)
    line = sys.stdin.readline()
    if not line.strip():
        return  # nobody waits any more
    ends = time.monotonic() + float(line)
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("high")
    effort = QUICK if arguments.quick else {"model": MODEL, "step": STEP}[kind]
    say = lambda stage: tell(stage=stage)  # noqa: E731
    say("model")
    with torch.no_grad() if kind == "model" else contextlib.nullcontext():
        records = Measurement(program(arguments.program), effort, ends, say).run()
    tell(records=records)


if __name__ == "__main__":
    main()
