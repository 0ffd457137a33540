"""Calls of hooked operators, from torch's own samples, by hand, and from schemas.

A *unit* is a source of calls, run as a whole: an entry of torch's lists of samples
(`op_db` and its like, modules, optimizers), or "schema:" and an operator's name.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal import common_methods_invocations as methods
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.utils._python_dispatch import TorchDispatchMode

from registry import guesses, handmade
from registry.effects import seed_generators
from registry.hooks import Call, check_device, hooks
from registry.kin import kin_names, kin_of
from registry.memory import Copier, Unsupported, form, replaced, size, walk

SAMPLES = 24  # of an entry and dtype
LARGEST_ELEMENTS = 1 << 16
DTYPES = (torch.float32, torch.int64, torch.complex64, torch.bfloat16, torch.bool)
FOREACH = (
    methods.foreach_unary_op_db
    + methods.foreach_binary_op_db
    + methods.foreach_pointwise_op_db
    + methods.foreach_reduce_op_db
    + methods.foreach_other_op_db
)


# Whether an operator has had its calls.
Full = Callable[[str], bool]


class Collector(TorchDispatchMode):
    """Keeps copies of the calls that reach hooks, the smallest of each form.

    Sits right above the hooks. Only collects: calls are examined without it.
    """

    def __init__(self, source: str, limit: int, full: Full) -> None:
        super().__init__()
        self._source = source
        self._limit = limit
        self._full = full
        self._calls: dict[str, dict[Any, Call]] = collections.defaultdict(dict)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        name = func.name()
        if name not in hooks() and not kin_names(name):
            return func(*args, **kwargs)
        if self._full(name) and all(map(self._full, kin_names(name))):
            return func(*args, **kwargs)
        call = None
        known = self._calls[name]
        key = form((args, kwargs))
        if key not in known and size((args, kwargs)) <= LARGEST_ELEMENTS:
            try:
                copy = Copier()
                call = Call(
                    name, replaced(args, copy), replaced(kwargs, copy), self._source
                )
            except Unsupported:
                pass
        result = func(*args, **kwargs)
        if call is not None:
            known[key] = call
            if len(known) > self._limit:
                largest = max(known, key=lambda k: size(known[k].args))
                del known[largest]
        return result

    def calls(self) -> Iterator[Call]:
        for known in self._calls.values():
            yield from sorted(known.values(), key=lambda call: size(call.args))


def units() -> list[str]:
    """All sources but schemas."""
    counts: collections.Counter[str] = collections.Counter()
    names = []
    for kind, entries in (
        ("made", handmade.GROUPS),
        ("op", methods.op_db),
        ("foreach", FOREACH),
        ("module", module_db),
        ("optimizer", optim_db),
    ):
        for entry in entries:
            name = f"{kind}:{_name(entry)}"
            counts[name] += 1
            names.append(name if counts[name] == 1 else f"{name}#{counts[name]}")
    return names


def _name(entry: Any) -> str:
    if isinstance(entry, str):
        return entry
    if hasattr(entry, "full_name"):
        return str(entry.full_name)
    if hasattr(entry, "formatted_name"):
        return str(entry.formatted_name)
    return str(entry.optim_cls.__name__)


@functools.cache
def _entries() -> dict[str, Any]:
    entries = itertools.chain(
        handmade.GROUPS, methods.op_db, FOREACH, module_db, optim_db
    )
    return dict(zip(units(), entries, strict=True))


def calls_of(unit: str, device: str, limit: int, full: Full) -> Iterator[Call]:
    """At most `limit` calls an operator; none of an operator that is full."""
    kind, _, rest = unit.partition(":")
    if kind == "schema":
        yield from guesses.calls_of_schema(rest, device, limit)
        return
    run: Callable[[Any, str], None] = {
        "op": _run_operator,
        "foreach": _run_operator,
        "module": _run_module,
        "optimizer": _run_optimizer,
        "made": _run_handmade,
    }[kind]
    collector = Collector(unit, limit, full)
    random.seed(0)
    seed_generators(device, 0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)
    with collector:
        run(_entries()[unit], device)
    check_device()
    for call in collector.calls():
        if call.name in hooks() and not full(call.name):
            yield call
        yield from kin_of(call, full)


# --- Torch's samples ------------------------------------------------------------


def _run_operator(entry: Any, device: str) -> None:
    supported = entry.supported_dtypes(device)
    dtypes = [dtype for dtype in DTYPES if dtype in supported]
    for dtype in dtypes or sorted(supported, key=str)[:1]:
        grad = dtype.is_floating_point and getattr(entry, "supports_autograd", False)
        samples: Any = iter(())
        with contextlib.suppress(Exception):
            samples = entry.sample_inputs(device, dtype, requires_grad=grad)
        for sample in itertools.islice(samples, SAMPLES):
            _quietly(lambda sample=sample: _forward_backward(entry, sample))
            if grad is False and entry.inplace_variant is not None:
                _quietly(
                    lambda sample=sample: entry.inplace_variant(
                        sample.input, *sample.args, **sample.kwargs
                    )
                )


def _quietly(run: Callable[[], Any]) -> None:
    """A sample that torch cannot run here has nothing to show."""
    with contextlib.suppress(Exception):
        run()


def _forward_backward(entry: Any, sample: Any) -> None:
    function = entry.op if entry.op is not None else entry.inplace_variant
    out = function(sample.input, *sample.args, **sample.kwargs)
    _backward(out)


def _backward(out: Any) -> None:
    ends = [t for t in walk(out) if t.requires_grad and not t.is_sparse]
    if ends:
        torch.autograd.backward(ends, [torch.randn_like(end) for end in ends])


def _run_module(entry: Any, device: str) -> None:
    for dtype in (torch.float32, torch.float64):
        if dtype not in entry.supported_dtypes(device):
            continue
        for training in (True, False):
            inputs = entry.module_inputs_func(
                entry,
                device=device,
                dtype=dtype,
                requires_grad=dtype is torch.float32,
                training=training,
            )
            for sample in itertools.islice(inputs, SAMPLES):
                _quietly(
                    lambda sample=sample, dtype=dtype, training=training: _module_step(
                        entry.module_cls, sample, device, dtype, training
                    )
                )
        break


def _module_step(
    cls: Any, sample: Any, device: str, dtype: torch.dtype, training: bool
) -> None:
    made = sample.constructor_input
    module = cls(*made.args, **made.kwargs).to(device, dtype).train(training)
    given = sample.forward_input
    _backward(module(*given.args, **given.kwargs))
    with torch.no_grad():
        module(*given.args, **given.kwargs)


def _run_optimizer(entry: Any, device: str) -> None:
    inputs = entry.optim_inputs_func(device=torch.device(device))
    flags: list[dict[str, Any]] = [{"foreach": False}, {"foreach": True}]
    if "fused" in entry.supported_impls:
        flags.append({"fused": True})
    for sample, flag in itertools.product(itertools.islice(inputs, SAMPLES), flags):
        _quietly(
            lambda sample=sample, flag=flag: _optimizer_step(
                entry, sample, flag, device
            )
        )


def _run_handmade(group: str, device: str) -> None:
    for run in handmade.run(group, device):
        _quietly(run)


def _optimizer_step(entry: Any, sample: Any, flag: dict[str, Any], device: str) -> None:
    parameters = [
        torch.nn.Parameter(torch.randn(3, 4, device=device)),
        torch.nn.Parameter(torch.randn(5, device=device)),
    ]
    optimizer = entry.optim_cls(parameters, **{**sample.kwargs, **flag})
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer.step(lambda: torch.zeros((), device=device))
