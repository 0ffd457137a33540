"""Programs of some passes, made of the samples in torch's own lists.

A *unit* is an entry of a list and a dtype, `op:addmm:float32`; a *case* is one of its
samples. Each pass of a case gets other numbers of the same forms: floats differ, and
integers, which may be indices or sizes, stay.
"""

from __future__ import annotations

import collections
import copy
import dataclasses
import functools
import itertools
import random
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
from registry.effects import seed_generators
from registry.memory import Copier, Unsupported, is_plain, replaced, size, walk
from torch.testing._internal import common_methods_invocations as methods
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db

PASSES = 12  # most cases are replayed from the eighth to tenth on
STEPS = 14  # of an optimizer
STEPS_WITH_CLOSURE = 5  # of one that has twenty rounds in each
MOST_SAMPLES = 400  # of an entry, of which some are taken
LARGEST_ELEMENTS = 1 << 18  # of a sample's tensors together
_HALF = {"cpu": torch.bfloat16, "cuda": torch.float16}
_DTYPES = {"float32": torch.float32}
_KINDS = {
    "op": methods.op_db,
    "foreach": (
        methods.foreach_unary_op_db
        + methods.foreach_binary_op_db
        + methods.foreach_pointwise_op_db
        + methods.foreach_reduce_op_db
        + methods.foreach_other_op_db
    ),
    "module": module_db,
    "optimizer": optim_db,
}


class Skipped(Exception):
    """A sample that no program is made of; says why."""


@dataclasses.dataclass
class Run:
    """One run of a case: what it works on is its own."""

    prepare: Callable[[int], Any]  #: what the pass of this number works on
    work: Callable[[Any], Any]  #: the pass; returns all that is compared


@dataclasses.dataclass
class Case:
    """A sample as a program."""

    unit: str
    number: int  #: among all samples of the unit
    text: str  #: the call, for people
    passes: int
    begin: Callable[[], Run]  #: the same at each call


# --- Units --------------------------------------------------------------------------


def _name(entry: Any) -> str:
    for attribute in ("full_name", "formatted_name"):
        if hasattr(entry, attribute):
            return str(getattr(entry, attribute))
    return str(entry.optim_cls.__name__)


@functools.cache
def _entries() -> dict[str, Any]:
    """By kind and name; an entry whose name another one has is numbered."""
    found: dict[str, Any] = {}
    counts: collections.Counter[str] = collections.Counter()
    for kind, entries in _KINDS.items():
        for entry in entries:
            name = f"{kind}:{_name(entry)}"
            counts[name] += 1
            found[name if counts[name] == 1 else f"{name}#{counts[name]}"] = entry
    return found


def _dtype(name: str, device: str) -> torch.dtype:
    return _HALF[device] if name == "half" else _DTYPES[name]


def units(device: str, dtypes: tuple[str, ...]) -> list[str]:
    """All entries that support a dtype of these, "float32" or "half", on the device."""
    found = []
    for (name, entry), dtype in itertools.product(_entries().items(), dtypes):
        kind = name.split(":")[0]
        real = _dtype(dtype, device)
        if kind == "optimizer" or real in entry.supported_dtypes(device):
            found.append(f"{name}:{dtype}")
    return found


def cases(unit: str, device: str, most: int) -> Iterator[Case]:
    """So many of a unit's samples at most, spread over all of them."""
    name, _, dtype = unit.rpartition(":")
    entry = _entries()[name]
    seed_everything(device, 0)
    make = {
        "op": _operators,
        "foreach": _operators,
        "module": _modules,
        "optimizer": _optimizers,
    }[name.split(":")[0]]
    made = list(
        itertools.islice(make(unit, entry, device, _dtype(dtype, device)), MOST_SAMPLES)
    )
    step = max(len(made) / most, 1.0)
    chosen = sorted({int(at * step) for at in range(min(most, len(made)))})
    return (made[at] for at in chosen)


def seed_everything(device: str, seed: int) -> None:
    random.seed(seed)
    seed_generators(device, seed)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(seed)


# --- Inputs -------------------------------------------------------------------------


def _other_numbers(tensor: torch.Tensor) -> None:
    """Floats a little smaller, each by itself: they stay where they may be."""
    floats = tensor.is_floating_point() or tensor.is_complex()
    if floats and tensor.numel() > 0 and 0 not in tensor.stride():
        tensor.mul_(0.9 + 0.1 * torch.rand_like(tensor))


def _fresh(given: Any, number: int) -> Any:
    """A copy, with other floats in each pass but the first.

    Raises Skipped for tensors that are no plain ones.
    """
    copier = Copier()

    def change(tensor: torch.Tensor) -> torch.Tensor:
        made = copier(tensor)
        if number > 0:
            _other_numbers(made)
        return made.requires_grad_(tensor.requires_grad)

    with torch.no_grad():
        try:
            return replaced(given, change)
        except Unsupported:
            raise Skipped("a tensor that is not dense and plain") from None


def _check_size(given: Any) -> None:
    if size(given) > LARGEST_ELEMENTS:
        raise Skipped("a large sample")


def _cotangent(end: torch.Tensor) -> torch.Tensor:
    """Of a result, by its own numbers."""
    with torch.no_grad():
        return torch.cos(end.detach())


def _ends(out: Any) -> list[torch.Tensor]:
    return [t for t in walk(out) if t.requires_grad and t.layout == torch.strided]


def _call_text(name: str, given: Any) -> str:
    def text(value: Any) -> str:
        if isinstance(value, torch.Tensor):
            layout = f" strides {list(value.stride())}" if is_plain(value) else ""
            return f"<{value.dtype} {list(value.shape)}{layout}>".replace("torch.", "")
        if isinstance(value, (list, tuple)):
            return f"[{', '.join(map(text, value))}]"
        return repr(value)[:60]

    args, kwargs = given
    texts = [*map(text, args), *(f"{n}={text(v)}" for n, v in kwargs.items())]
    return f"{name}({', '.join(texts)})"[:600]


# --- Operators ----------------------------------------------------------------------


def _operators(
    unit: str, entry: Any, device: str, dtype: torch.dtype
) -> Iterator[Case]:
    grad = bool(getattr(entry, "supports_autograd", False))
    grad = grad and dtype in entry.supported_backward_dtypes(device)
    samples = entry.sample_inputs(device, dtype, requires_grad=grad)
    for number, sample in enumerate(samples):
        given = ((sample.input, *sample.args), sample.kwargs)
        begin = functools.partial(_begin_operator, entry, given, device)
        yield Case(unit, number, _call_text(_name(entry), given), PASSES, begin)


def _begin_operator(entry: Any, given: Any, device: str) -> Run:
    _check_size(given)
    weight = torch.linspace(-2, 2, 24, device=device)
    forms = _forms(entry, _fresh(given, 0))

    def prepare(number: int) -> Any:
        return _fresh(given, number)

    def work(inputs: Any) -> dict[str, Any]:
        head = weight * 1.5
        side = torch.relu(head)
        seen = {name: form(inputs) for name, form in forms.items()}
        side = side + head
        side.sum().item()  # ends the pass
        return {**seen, "around": side}

    return Run(prepare, work)


def _forms(entry: Any, given: Any) -> dict[str, Callable[[Any], Any]]:
    """The ways of calling an operator that eager accepts for a sample."""
    function = entry.op if entry.op is not None else entry.inplace_variant
    if entry.op is None:
        return {"in place": functools.partial(_in_place, function)}
    plain = function(*given[0], **given[1])
    forms = {"called": functools.partial(_plain, function)}
    if entry.inplace_variant is not None and _works(
        lambda: _in_place(entry.inplace_variant, given)
    ):
        forms["in place"] = functools.partial(_in_place, entry.inplace_variant)
    with_out = functools.partial(_out, function)
    if (
        getattr(entry, "supports_out", False)
        and isinstance(plain, torch.Tensor)
        and _works(lambda: with_out(given))
    ):
        forms["into a tensor"] = with_out
    return forms


def _works(call: Callable[[], Any]) -> bool:
    try:
        call()
    except Exception:
        return False
    return True


def _plain(function: Any, given: Any) -> Any:
    out = function(*given[0], **given[1])
    ends = _ends(out)
    leaves = [t for t in walk(given) if t.requires_grad]
    if not ends or not leaves:
        return out
    grads = torch.autograd.grad(
        ends, leaves, [_cotangent(end) for end in ends], allow_unused=True
    )
    return out, grads


def _in_place(function: Any, given: Any) -> Any:
    (first, *rest), kwargs = given
    with torch.no_grad():
        made = replaced(first, lambda t: t.clone())
        return made, function(made, *rest, **kwargs)


def _out(function: Any, given: Any) -> Any:
    with torch.no_grad():
        plain = function(*given[0], **given[1])
        made = torch.empty_like(plain)  # memory of its own, not that of this result
        return made, function(*given[0], **given[1], out=made)


# --- Modules ------------------------------------------------------------------------


def _modules(unit: str, entry: Any, device: str, dtype: torch.dtype) -> Iterator[Case]:
    number = 0
    for training in (True, False):
        for sample in entry.module_inputs_func(
            entry, device=device, dtype=dtype, requires_grad=True, training=training
        ):
            made, given = sample.constructor_input, sample.forward_input
            inputs = (given.args, given.kwargs)
            text = _call_text(_name(entry), (made.args, made.kwargs))
            text += ("" if training else ".eval()") + _call_text("", inputs)
            begin = functools.partial(
                _begin_module, entry.module_cls, sample, device, dtype, training
            )
            yield Case(unit, number, text, PASSES, begin)
            number += 1


def _begin_module(
    cls: Any, sample: Any, device: str, dtype: torch.dtype, training: bool
) -> Run:
    made = sample.constructor_input
    inputs = (sample.forward_input.args, sample.forward_input.kwargs)
    _check_size(inputs)
    args, kwargs = _fresh((made.args, made.kwargs), 0)
    module = cls(*args, **kwargs).to(device, dtype).train(training)

    def work(given: Any) -> dict[str, Any]:
        for parameter in module.parameters():
            parameter.grad = None
        out = module(*given[0], **given[1])
        ends = _ends(out)
        if ends:
            torch.autograd.backward(ends, [_cotangent(end) for end in ends])
        with torch.no_grad():
            for buffer in module.buffers():
                buffer.sum() if buffer.is_floating_point() else None
        return {
            "called": out,
            "gradients of parameters": [p.grad for p in module.parameters()],
            "gradients of inputs": [t.grad for t in walk(given)],
            "buffers": list(module.buffers()),
        }

    return Run(lambda number: _fresh(inputs, number), work)


# --- Optimizers ---------------------------------------------------------------------


def _optimizers(
    unit: str, entry: Any, device: str, dtype: torch.dtype
) -> Iterator[Case]:
    flags: list[dict[str, Any]] = [{}]
    flags += [
        {name: True} for name in entry.supported_impls if name != "differentiable"
    ]
    samples = list(entry.optim_inputs_func(device=torch.device(device)))
    steps = STEPS_WITH_CLOSURE if entry.step_requires_closure else STEPS
    for number, (sample, flag) in enumerate(itertools.product(samples, flags)):
        kwargs = {**sample.kwargs, **flag}
        begin = functools.partial(_begin_optimizer, entry, kwargs, device, dtype)
        yield Case(unit, number, _call_text(_name(entry), ((), kwargs)), steps, begin)


def _model(entry: Any, device: str, dtype: torch.dtype) -> torch.nn.Module:
    if getattr(entry, "only_supports_sparse_grads", False):
        layers: list[torch.nn.Module] = [torch.nn.Embedding(7, 4, sparse=True)]
    else:
        biases = entry.optim_cls.__name__ != "Muon"  # takes matrices alone
        layers = [
            torch.nn.Linear(4, 5, bias=biases),
            torch.nn.Tanh(),
            torch.nn.Linear(5, 3, bias=biases),
        ]
    return torch.nn.Sequential(*layers).to(device, dtype)


def _begin_optimizer(
    entry: Any, kwargs: dict[str, Any], device: str, dtype: torch.dtype
) -> Run:
    model = _model(entry, device, dtype)
    optimizer = entry.optim_cls(model.parameters(), **copy.deepcopy(kwargs))
    sparse = isinstance(model[0], torch.nn.Embedding)

    def prepare(number: int) -> torch.Tensor:
        if sparse:
            return torch.randint(7, (6,), device=device)
        return torch.randn(6, 4, device=device).to(dtype)

    def work(x: torch.Tensor) -> dict[str, Any]:
        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        return {
            "loss": loss,
            "parameters": list(model.parameters()),
            "gradients": [p.grad for p in model.parameters()],
            "state": [dict(optimizer.state[p]) for p in model.parameters()],
        }

    return Run(prepare, work)
