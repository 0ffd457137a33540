"""Finds composite operators that write memory past the operators they are made of.

    python tests/python/registry/raw_writes.py [--only ctc_loss _sobol_engine_ff_]

A composite operator is no op of a trace: those that it calls are. Some fill memory by a
pointer in between, which no hook sees. Where that is memory of their own (an `empty`), a
recording finds out by itself (engine/trace/trace_recorder.h, WhyReadsUnseen). Where it is
an argument, a replay that began before the call would have read it: such operators have to
stand in `kWritePastOperators` in bindings/torch/runtime/op_policy.cc.

Every composite of torch's own is called with arguments that fit its schema, and every
sample of torch's list of operators is run, forward and backward. The bytes of each tensor
are compared behind the operator that used it last, and before the one that uses it next.
Prints what was found, and exits with 1 if an operator is missing from the table, or one in
it does no such thing.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import functools
import pathlib
import sys
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

here = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(here.parent))
    sys.path.append(str(here.parents[2] / "bindings" / "python"))

from registry.children import in_a_child  # noqa: E402
from registry.guesses import calls_of_schema  # noqa: E402
from registry.hooks import overload  # noqa: E402
from registry.memory import is_plain, walk  # noqa: E402

CALLS = 4  # of an operator
COMPOSITE = "CompositeImplicitAutograd"
PATTERN = 3  # what memory without content holds at first
# They end the process, or wait for another one.
PASSED_OVER = ("aten::from_file", "aten::_test_", "aten::_cufft_", "aten::to_here")


class Found(NamedTuple):
    """An operator, and what it wrote: "an argument" or "its own memory"."""

    name: str
    what: str


class _Memory(NamedTuple):
    tensor: torch.Tensor  # keeps the storage, so that no other one lies there
    hash: int


class Bytes(TorchDispatchMode):
    """Runs composites as the operators that they are made of, and looks at memory between."""

    def __init__(self, given: Any) -> None:
        super().__init__()
        self._known: dict[int, _Memory] = {}
        self._given: set[int] = set()
        #: what was written past the operators
        self.found: set[str] = set()
        self._note(given)
        self._given = set(self._known)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        kwargs = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), COMPOSITE):
            with self:
                return func.decompose(*args, **kwargs)
        self.look((args, kwargs))
        result = func(*args, **kwargs)
        if func._schema.name.rpartition("::")[2].startswith(("empty", "new_empty")):
            for tensor in walk(result):
                _mark(tensor)
        self._note((args, kwargs, result))
        return result

    def look(self, value: Any) -> None:
        """Compare what the last operator left with what is there.

        Memory that no operator has used was made and filled by none.
        """
        for tensor in walk(value):
            key = _place(tensor)
            known = self._known.get(key)
            if key != 0 and (known is None or known.hash != _hash(tensor)):
                self.found.add(
                    "an argument" if key in self._given else "its own memory"
                )

    def _note(self, value: Any) -> None:
        for tensor in walk(value):
            if (key := _place(tensor)) != 0:
                self._known[key] = _Memory(tensor, _hash(tensor))


def _place(tensor: torch.Tensor) -> int:
    """Where its storage is; 0 if there is nothing to look at."""
    if not is_plain(tensor) or tensor.device.type != "cpu":
        return 0
    return tensor.untyped_storage().data_ptr()


def _hash(tensor: torch.Tensor) -> int:
    storage = tensor.untyped_storage()
    return zlib.crc32(ctypes.string_at(storage.data_ptr(), storage.nbytes()))


def _mark(tensor: torch.Tensor) -> None:
    storage = tensor.untyped_storage()
    if is_plain(tensor) and storage.nbytes():
        ctypes.memset(storage.data_ptr(), PATTERN, storage.nbytes())


def writes(run: Callable[[], Any], given: Any) -> set[str]:
    """What a call with these arguments writes past operators."""
    watch = Bytes(given)
    with contextlib.suppress(Exception), watch:
        result = run()
        watch.look((given, result))
        _backward(result)
    watch.look(given)
    return watch.found


def _backward(result: Any) -> None:
    ends = [t for t in walk(result) if t.requires_grad and is_plain(t)]
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(end) for end in ends])


def composites() -> list[str]:
    """Torch's own operators that are made of others."""
    return sorted(
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and not name.startswith(PASSED_OVER)
        and torch._C._dispatch_has_kernel_for_dispatch_key(name, COMPOSITE)
    )


def _of_schema(name: str) -> set[Found]:
    found: set[Found] = set()
    with contextlib.suppress(AttributeError, RuntimeError):
        for call in calls_of_schema(name, "cpu", CALLS):
            found |= {
                Found(name, w) for w in writes(call.run, (call.args, call.kwargs))
            }
    return found


def _of_schemas(wanted: Callable[[str], bool]) -> Iterator[Found]:
    made = {name for name, _ in _made()}
    for name in filter(wanted, composites()):
        if name not in made:
            for each in in_a_child(functools.partial(_of_schema, name)):
                yield Found(*each)


def _of_samples(wanted: Callable[[str], bool]) -> Iterator[Found]:
    from torch.testing._internal.common_methods_invocations import op_db

    for entry in op_db:
        name = f"op:{entry.full_name}"
        if not wanted(name):
            continue
        for grad in (False, True):
            samples: Iterable[Any] = ()
            with contextlib.suppress(Exception):
                samples = list(
                    entry.sample_inputs("cpu", torch.float32, requires_grad=grad)
                )[:CALLS]
            for sample in samples:
                given = (sample.input, sample.args, sample.kwargs)
                for what in writes(
                    lambda s=sample, e=entry: e.op(s.input, *s.args, **s.kwargs), given
                ):
                    yield Found(name, what)


def _made() -> Iterator[tuple[str, list[Any]]]:
    """Calls whose arguments are no guess."""
    dimension, drawn = 4, 3
    quasi = torch.zeros(dimension, dtype=torch.long)
    state = torch.randint(1, 1 << 29, (dimension, 30))
    yield "aten::_sobol_engine_ff_", [quasi, 5, state, dimension, drawn]
    yield (
        "aten::_sobol_engine_draw",
        [quasi, 5, state, dimension, drawn, torch.float32],
    )
    yield "aten::_sobol_engine_initialize_state_", [torch.zeros_like(state), dimension]
    lower = torch.ones(dimension, 30, 30, dtype=torch.long).tril()
    yield "aten::_sobol_engine_scramble_", [state, lower, dimension]
    chances = torch.rand(8, 3, 5).log_softmax(-1)
    targets = torch.randint(1, 5, (3, 3))
    lengths = [[8, 6, 7], [3, 1, 2]]
    yield "aten::ctc_loss.IntList", [chances, targets, *lengths, 0, 1, False]


def _of_made(wanted: Callable[[str], bool]) -> Iterator[Found]:
    for name, args in _made():
        if wanted(name):
            for what in writes(lambda n=name, a=args: overload(n)(*a), args):
                yield Found(name, what)


def sweep(only: Iterable[str] = ()) -> set[Found]:
    """All that write past operators; `only` those that have one of these in their name."""
    parts = tuple(only)

    def wanted(name: str) -> bool:
        return not parts or any(part in name for part in parts)

    torch.manual_seed(0)
    return {
        *_of_made(wanted),
        *_of_schemas(wanted),
        *_of_samples(wanted),
    }


def table() -> set[str]:
    """The operators that the hooks end traces before."""
    from reprise import _native

    return set(_native._ops().writing_past_operators())


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found = sweep(given.only)
    for name, what in sorted(found):
        print(f"{name}: writes {what} past the operators that it is made of")
    needed = {
        name
        for name, what in found
        if what == "an argument" and not name.startswith("op:")
    }
    needed = {name.partition(".")[0] for name in needed}
    for name in sorted(needed - table()):
        print(f"{name}: kWritePastOperators does not name it")
    unneeded = set() if given.only else table() - needed
    for name in sorted(unneeded):
        print(f"{name}: kWritePastOperators names it, and it does no such thing")
    return 1 if needed - table() or unneeded else 0


if __name__ == "__main__":
    sys.exit(main())
