"""What may happen between an op and its early run, as groups of lines for random programs.

A replay launches an op before the program asks for it. Each hazard here changes, in the
meantime, something that the op reads or obeys: memory that an op on another thread writes,
kernels, switches; or it shows something that an early run does besides its result:
warnings, calls of Python, exceptions. A program is given the lines of one group of a
hazard, in their order, at rising places of its body (generate.py).

The first `CALM_PASSES` passes are alike and quiet, so that the program is replayed when
the hazard sets in.
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.autograd import forward_ad

CALM_PASSES = 22
FAR_ELEMENTS = 1 << 21  # enough for an op of milliseconds on the host
STARTED_S = 0.0005  # until an op that a thread is about to call is under way
STARTED_TIMEOUT_S = 60.0


@dataclasses.dataclass(frozen=True)
class Hazard:
    """Groups of lines, of which a body is given one; `setup` goes before all passes."""

    groups: tuple[tuple[str, ...], ...]
    setup: tuple[str, ...] = ()
    first: bool = False  #: the first line comes before all other lines of the body


_READ = "{A} = torch.tanh(s.far[0][-%(b)d * %(d)d :].view(%(b)d, %(d)d) * {c} + {a})"
_CTC = (
    "{A} = {a} * F.ctc_loss({a}.reshape(%(b)d, 2, -1).log_softmax(-1), s.c0, s.rows[0], "
    "s.lengths('%(kind)s'), zero_infinity=True).mul(0.02).tanh()"
)

HAZARDS = {
    "in flight": Hazard(
        setup=("s.make_far()",),
        groups=tuple(
            (f"s.start('{kind}')", "s.finish()", _READ)
            for kind in ("mask", "draw", "copy", "sort", "sum")
        ),
        first=True,
    ),
    "kernels": Hazard(
        groups=tuple(
            (
                f"s.override('{name}', '{how}')",
                f"{{A}} = torch.{name}({{a}})",
                "s.take_back()",
                f"{{A}} = torch.{name}({{a}})",
            )
            for name in ("sin", "sigmoid", "tanh")
            for how in ("late", "always", "counting")
        ),
    ),
    "switches": Hazard(
        setup=("s.make_far()", "s.make_scale()"),
        groups=(
            (
                "s.shrink_scale()",
                "with s.switched('denormals'):\n"
                "    {A} = ({a} * s.scale * 0.3) * s.back",
            ),
            ("with s.switched('mkldnn'):\n    {A} = F.gelu({a} * {c})",),
            (
                "s.fill_far()",
                "with s.switched('threads'):\n"
                "    {R} = {r} + s.far[1][:200000].sum() * 0.001",
            ),
        ),
    ),
    "warnings": Hazard(
        groups=(
            ("{R} = s.warns(lambda: {a}[:, :1].std(1, keepdim=True)).nan_to_num(0.1)",),
            ("{V} = s.warns(lambda: {a}[:1].var(0)).nan_to_num(0.1)",),
            ("{R} = s.stopped(lambda: {a}[:, :1].std(1, keepdim=True).nan_to_num(0.1), {r})",),
            ("{A} = s.warns(lambda: torch.sin({a}, out=torch.empty(1, device=s.device)))",),
        ),
    ),
    "versions": Hazard(
        groups=(
            ("s.say(F.one_hot({i}, 72)._version)",),
            ("s.say(torch.block_diag({a}, {r})._version)",),
            ("s.say(torch.ops.aten.full([3], {c})._version)",),
        ),
    ),
    "forward mode": Hazard(
        groups=(
            ("{A} = s.jvp(lambda x: torch.tanh(x) * x, {a}, {a})",),
            ("{A} = s.jvp(lambda x: torch.softmax(x @ {w}, 1), {a}, {a})",),
            ("{A} = s.jvp(lambda x: torch.cat([x[1:], x[:1].sin()]), {a}, {a})",),
        ),
    ),
    "slopes": Hazard(
        groups=(
            ("{V} = s.slope(lambda x: (x * x.sin()).sum(), {a}[0], {v})",),
            ("{V} = s.slope(lambda x: x.cos().sum(), s.inputs[0][1], {v})",),
        ),
    ),
    "raised once": Hazard(
        groups=(
            ("{A} = s.attempt_on_host(lambda: F.embedding({i} + 72 * s.once(), s.t0)[:, :%(d)d], {a})",),
            ("{A} = s.attempt_on_host(lambda: s.t0[{i} + 72 * s.once()][:, :%(d)d], {a})",),
            ("{A} = s.attempt(lambda: torch.lerp({a}, {a}[:, s.once() :], {c}), {a})",),
        ),
    ),
    "logging": Hazard(
        groups=(("s.log({a}, 10)",), ("s.log({v}, 7)",), ("s.log({a}, 3)",)),
    ),
    "raw fills": Hazard(
        setup=("s.make_targets(%(b)d, %(d)d)",),
        groups=(
            # Shows only where the memory happened to hold numbers below one.
            *([(_CTC.replace("%(kind)s", "none"),)] * 5),
            (_CTC.replace("%(kind)s", "late"),),
            (_CTC.replace("%(kind)s", "new"),),
            ("s.advance()", "{V} = {v} * (s.sobol.quasi.to(s.device) * 2.0**-30)"),
        ),
    ),
}  # fmt: skip


class Interference:
    """What lines of hazards ask of a `State`."""

    device: str
    number: int
    say: Callable[[object], None]
    _note: Callable[[str], None]

    def __init__(self) -> None:
        self.far: list[torch.Tensor] = []  # large, and compared by what is read of it
        self._thread: threading.Thread | None = None
        self._library: Any = None
        self._calls = 0  # of kernels that are written in Python
        self._told: list[warnings.WarningMessage] = []
        self._recording = contextlib.ExitStack()

    def _late(self) -> bool:
        return self.number >= CALM_PASSES

    def begin_hazards(self) -> None:
        """Warnings are kept from now on."""
        told = warnings.catch_warnings(record=True)
        kept = self._recording.enter_context(told)
        assert kept is not None
        self._told = kept
        warnings.simplefilter("always")

    def end_hazards(self) -> None:
        """All is as it was before the program, and its warnings are told."""
        self.finish()
        self.take_back()
        self._recording.close()
        self.say(self._calls)
        self.say(self._warnings())

    def _warnings(self) -> list[str]:
        """What ops said; torch says once a process that kernels were registered."""
        told = [
            str(warning.message)
            for warning in self._told
            if issubclass(warning.category, UserWarning)  # Python's are told once
        ]
        return [text for text in told if not re.search("^reprise|only once", text)]

    # --- Ops of another thread --------------------------------------------------------

    def make_far(self) -> None:
        if not self.far:
            made = (torch.zeros(FAR_ELEMENTS, device=self.device) for _ in range(3))
            self.far += made

    def start(self, kind: str) -> None:
        """Another thread writes `far[0]` until `finish`, at first before this returns."""
        self.finish()
        self._note(f"another thread's {kind} under way")
        started = threading.Event()
        value = 0.25 + self.number % 7 * 0.125
        stream = torch.cuda.current_stream() if self.device == "cuda" else None

        def write() -> None:
            with torch.no_grad(), torch.cuda.stream(stream):
                self._write_far(kind, value, started)

        self._thread = threading.Thread(target=write)
        self._thread.start()
        assert started.wait(STARTED_TIMEOUT_S)
        if self._late():
            time.sleep(STARTED_S)
        else:
            self.finish()

    def _write_far(self, kind: str, value: float, started: threading.Event) -> None:
        far, other, mask = self.far
        match kind:
            case "mask":
                everywhere = mask == 0
                started.set()
                far[everywhere] = value
            case "draw":
                generator = torch.Generator(self.device).manual_seed(self.number)
                started.set()
                far[-(FAR_ELEMENTS // 4) :].normal_(generator=generator)
            case "copy":
                host = torch.full((FAR_ELEMENTS,), value)
                started.set()
                far.copy_(host)
            case "sort":
                part = torch.linspace(value, -value, FAR_ELEMENTS // 16)
                part = part.to(self.device)
                places = torch.empty(part.shape, dtype=torch.int64, device=self.device)
                started.set()
                torch.sort(part, out=(far[-part.numel() :], places))
            case "sum":
                other.fill_(value / FAR_ELEMENTS)
                started.set()
                torch.cumsum(other, 0, out=far)
            case _:
                raise ValueError(kind)

    def finish(self) -> None:
        """What the other thread does is done."""
        if self._thread is not None:
            self._thread.join()
        self._thread = None

    # --- Kernels ----------------------------------------------------------------------

    def override(self, name: str, how: str) -> None:
        """Until `take_back`, an operator has a kernel of the program's own."""
        self.take_back()
        if how != "always" and not self._late():
            return
        self._note("a kernel registered")

        def kernel(x: torch.Tensor) -> torch.Tensor:
            self._calls += 1
            scale = 0.5 + self._calls % 5 * 0.125 if how == "counting" else 0.5
            return x.cos() * scale

        self._library = torch.library.Library("aten", "IMPL")
        self._library.impl(name, kernel, self.device.upper())

    def take_back(self) -> None:
        if self._library is not None:
            self._library._destroy()
        self._library = None

    # --- Switches ---------------------------------------------------------------------

    def make_scale(self) -> None:
        self.scale = torch.ones((), device=self.device)
        self.back = torch.ones((), device=self.device)

    def shrink_scale(self) -> None:
        """From the end of the calm passes on, `scale` makes denormals of values."""
        if self.number == CALM_PASSES:
            self.scale.fill_(1e-38)
            self.back.fill_(1e38)

    def fill_far(self) -> None:
        """From the end of the calm passes on, how `far[1]` is summed matters."""
        if self.number == CALM_PASSES:
            self.far[1].uniform_(-1, 1)

    @contextlib.contextmanager
    def switched(self, what: str) -> Iterator[None]:
        """Ops inside run under another switch."""
        self._note(f"another switch, {what}")
        match what:
            case "denormals":
                torch.set_flush_denormal(True)
                yield
                torch.set_flush_denormal(False)
            case "threads":
                torch.set_num_threads(4)
                yield
                torch.set_num_threads(1)
            case "mkldnn":
                with torch.backends.mkldnn.flags(enabled=not self._late()):
                    yield
            case _:
                raise ValueError(what)

    # --- Warnings and exceptions --------------------------------------------------------

    def warns(self, call: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What a call returns; the host is told how many warnings came, and when."""
        self._note("an op warned")
        before = len(self._warnings())
        result = call()
        self.say((before, len(self._warnings())))
        return result

    def stopped(
        self, call: Callable[[], torch.Tensor], otherwise: torch.Tensor
    ) -> torch.Tensor:
        """What a call returns that warns; once warnings are errors, another value."""
        with warnings.catch_warnings():
            warnings.simplefilter("error" if self._late() else "ignore")
            try:
                return call()
            except UserWarning as warning:
                self._note("a warning was an error")
                self.say(str(warning))
                return otherwise

    def once(self) -> int:
        """1 in one pass, in which an op raises for it, and 0 in all others."""
        return int(self.number == CALM_PASSES + 3)

    # --- What does no harm, and should cost no replays ----------------------------------

    def log(self, tensor: torch.Tensor, every: int) -> None:
        if self.number % every == 0:
            self._note("a number logged")
            self.say(tensor.sum().item())

    def jvp(
        self,
        function: Callable[[torch.Tensor], torch.Tensor],
        primal: torch.Tensor,
        tangent: torch.Tensor,
    ) -> torch.Tensor:
        """The directional derivative, by forward-mode differentiation."""
        self._note("a derivative in forward mode")
        with forward_ad.dual_level():
            out = function(forward_ad.make_dual(primal, tangent.detach().clone()))
            made = forward_ad.unpack_dual(out).tangent
        return torch.zeros_like(primal) if made is None else made.clone().clamp_(-2, 2)

    def slope(
        self,
        function: Callable[[torch.Tensor], torch.Tensor],
        primal: torch.Tensor,
        tangent: torch.Tensor,
    ) -> torch.Tensor:
        """The same of a scalar, by `torch.func`, times the tangent."""
        self._note("a slope in forward mode")
        _, made = torch.func.jvp(function, (primal,), (tangent,))
        return tangent * torch.tanh(made)

    # --- Composites that fill memory by a raw pointer -------------------------------------

    def make_targets(self, rows: int, width: int) -> None:
        """For `F.ctc_loss` of `rows` steps in a batch of two."""
        self.c0 = torch.randint(1, 8, (2, 2), device=self.device)
        self.rows = (torch.full((2,), rows),)  # on the host; compared is the device's
        self._lengths = [torch.tensor([2, 2]), torch.tensor([1, 2])]
        self._lengths.append(torch.zeros(2, dtype=torch.int64))
        self.sobol = torch.quasirandom.SobolEngine(width)

    def lengths(self, kind: str) -> torch.Tensor:
        """Of targets: "none", other ones "late", or "new" ones each time."""
        self._note(f"lengths of targets, {kind}")
        if kind == "none":
            return self._lengths[2]
        if kind == "new":
            return torch.tensor([1, 1 + self.number % 2])
        return self._lengths[int(kind == "late" and self._late())]

    def advance(self) -> None:
        if self._late():
            self.sobol.fast_forward(3)
