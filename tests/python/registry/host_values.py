"""Finds operators that go by the values of a tensor of the host, and that no table names.

    python tests/python/registry/host_values.py

A region's calls are made again on other tensors of the same forms. An operator may look
into one on the host (the lengths of sequences) to decide which calls it makes, or which
form its results have: with other values a replay would make the calls of the recorded
ones. Each operator is called with integers of other values in the same forms, one
argument at a time. If its inner calls or the forms of its results are others, it has to
read by an operator (`item`, `nonzero`), which a recording sees, or to stand in
`DecidesByValues` in bindings/torch/region/tape_ops.cc. Prints all that decide, and exits with 1
if one does not.
"""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

here = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(here.parent))
    sys.path.append(str(here.parents[2] / "bindings" / "python"))

from registry.children import in_a_child  # noqa: E402
from registry.guesses import _Guess  # noqa: E402
from registry.hooks import overload  # noqa: E402

TRIES = 24
CALLS = 3  # of an operator
# They have no result that is of the same form twice, or end the process.
PASSED_OVER = frozenset(
    {
        "aten::_nested_compute_contiguous_strides_offsets",
        "aten::_fw_primal",
        "aten::_make_dual",
        "aten::from_file",
        "aten::_cufft_set_plan_cache_max_size",
    }
)
READS = frozenset(
    {"aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::is_nonzero"}
)


# Other values of an argument.
Others = Callable[[torch.Tensor], Iterable[torch.Tensor]]


class Found(NamedTuple):
    """An operator and the argument by whose values it decides."""

    name: str
    argument: str


class _Calls(TorchDispatchMode):
    """What is called inside: names, forms and numbers, and whether data is read."""

    def __init__(self) -> None:
        super().__init__()
        self.made: list[Any] = []
        self.reads = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        del types
        tags = func.tags
        self.reads |= (
            torch.Tag.data_dependent_output in tags
            or torch.Tag.dynamic_output_shape in tags
            or func._schema.name in READS
        )
        kwargs = kwargs or {}
        self.made.append((func.name(), repr(_forms((args, kwargs)))))
        return func(*args, **kwargs)


def _forms(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return "tensor", str(value.dtype), tuple(value.shape)
    if isinstance(value, (tuple, list)):
        return [_forms(each) for each in value]
    if isinstance(value, dict):
        return {key: _forms(each) for key, each in value.items()}
    return value


class _Whole(_Guess):
    """Half of the tensors hold integers, as lengths and offsets do."""

    def tensor(self, name: str) -> torch.Tensor:
        given = super().tensor(name)
        if given.is_floating_point() and self._random.random() < 0.5:
            dtype = self._random.choice((torch.int64, torch.int32))
            return torch.randint(1, 4, given.shape, dtype=dtype)
        return given


def _others(given: torch.Tensor) -> Iterator[torch.Tensor]:
    """Of the same form, with values that are as likely to be accepted."""
    flat = given.reshape(-1)
    yield given.flip(0) if given.dim() else given + 1
    yield flat.sort(descending=True).values.reshape(given.shape)
    yield torch.full_like(given, int(flat.max()))
    yield torch.full_like(given, int(flat.min()))


def _run(operator: Any, args: list[Any]) -> tuple[Any, bool]:
    torch.manual_seed(0)
    with _Calls() as calls, torch.no_grad():
        result = operator(*_copied(args))
    return (calls.made, _forms(result)), calls.reads


def _copied(args: Any) -> Any:
    if isinstance(args, torch.Tensor):
        return args.clone()
    if isinstance(args, (tuple, list)):
        return [_copied(each) for each in args]
    return args


def decides(
    name: str, calls: Iterable[list[Any]], others: Others = _others
) -> set[Found]:
    """By which arguments, found in these calls; without those that are read by operators."""
    operator = overload(name)
    found = set()
    for args in calls:
        try:
            before, _ = _run(operator, args)
        except Exception:
            continue
        for index, given in enumerate(args):
            if not _holds_integers(given):
                continue
            argument = operator._schema.arguments[index].name
            for other in others(given):
                changed = [*args[:index], other, *args[index + 1 :]]
                try:
                    after, reads = _run(operator, changed)
                except Exception:
                    continue
                if after != before and not reads:
                    found.add(Found(name, argument))
    return found


def _holds_integers(given: Any) -> bool:
    return (
        isinstance(given, torch.Tensor)
        and not given.is_floating_point()
        and not given.is_complex()
        and given.dtype != torch.bool
        and given.numel() > 0
    )


def _guessed(name: str) -> Iterator[list[Any]]:
    schema = overload(name)._schema
    accepted = 0
    for number in range(TRIES):
        torch.manual_seed(number)
        guess = _Whole("cpu", f"{name} {number}")
        args = [
            guess.value(argument)
            for argument in schema.arguments
            if not argument.kwarg_only
        ]
        try:
            with torch.no_grad():
                overload(name)(*_copied(args))
        except Exception:
            continue
        yield args
        accepted += 1
        if accepted == CALLS:
            return


def operators() -> list[str]:
    """Of torch's own, those that take a tensor and write none."""
    found = []
    for name in torch._C._dispatch_get_all_op_names():
        if not name.startswith("aten::") or name.partition(".")[0] in PASSED_OVER:
            continue
        try:
            schema = overload(name)._schema
        except (AttributeError, RuntimeError):
            continue
        kinds = [str(each.type) for each in schema.arguments]
        if "Tensor" in kinds and not schema.is_mutable:
            found.append(name)
    return sorted(found)


def _recurrent(gates: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """A state, and the weights of one layer."""
    return torch.rand(1, 4, 3), [
        torch.rand(gates * 3, 2),
        torch.rand(gates * 3, 3),
        torch.rand(gates * 3),
        torch.rand(gates * 3),
    ]


def made() -> Iterator[tuple[str, list[Any], Others]]:
    """Calls of operators whose arguments are no guess, nor are others in their place.

    The packed sequences are of as many steps, of as many sequences and as long.
    """
    steps, sizes = torch.rand(13, 2), torch.tensor([4, 3, 3, 1, 1, 1])

    def other_sizes(_: torch.Tensor) -> list[torch.Tensor]:
        return [torch.tensor([4, 3, 2, 2, 1, 1])]

    def other_lengths(given: torch.Tensor) -> list[torch.Tensor]:
        return [given.roll(1), given.clamp(max=int(given.min()))]

    for name, gates in (("rnn_tanh", 1), ("rnn_relu", 1), ("gru", 3), ("lstm", 4)):
        state, weights = _recurrent(gates)
        given = [state, state.clone()] if name == "lstm" else state
        args = [steps, sizes, given, weights, True, 1, 0.0, False, False]
        yield f"aten::{name}.data", args, other_sizes
    padded, lengths = torch.rand(6, 4, 2), torch.tensor([6, 3, 3, 1])
    yield (
        "aten::_pack_padded_sequence",
        [padded, lengths, False],
        lambda _: [torch.tensor([6, 4, 2, 1]), torch.tensor([6, 4, 3, 1])],
    )
    yield (
        "aten::_pack_padded_sequence_backward",
        [steps, [6, 4, 2], sizes, False],
        other_sizes,
    )
    yield "aten::_pad_packed_sequence", [steps, sizes, False, 0.0, 6], other_sizes
    chances = torch.rand(8, 3, 5).log_softmax(-1)
    targets = torch.randint(1, 5, (3, 3))
    inputs, outputs = torch.tensor([8, 6, 7]), torch.tensor([3, 1, 2])
    losses = [chances, targets, inputs, outputs, 0]
    yield "aten::_ctc_loss.Tensor", [*losses, False], other_lengths
    yield "aten::ctc_loss.Tensor", [*losses, 1, False], other_lengths
    yield (
        "aten::tensor_split.tensor_indices_or_sections",
        [torch.rand(8, 2), torch.tensor([2, 5]), 0],
        lambda _: [torch.tensor([2, 4])],
    )
    bags = [torch.rand(5, 2), torch.tensor([1, 2, 4, 3]), torch.tensor([0, 2, 3])]
    for name in ("embedding_bag", "_embedding_bag"):
        yield f"aten::{name}", bags, lambda given: [torch.arange(given.numel())]
    counts = torch.tensor([1, 2, 1, 1, 3, 1])
    yield "aten::repeat_interleave.self_Tensor", [torch.rand(6, 2), counts], _others
    yield "aten::bincount", [torch.tensor([1, 2, 2, 0])], _others
    yield "aten::one_hot", [torch.tensor([1, 2, 2, 0]), -1], _others


def scan() -> set[Found]:
    """All that decide, over guesses and over what is made by hand."""
    found: set[Found] = set()
    for name, args, others in made():
        found |= decides(name, [args], others)
    for name in operators():
        of_child = in_a_child(functools.partial(_of_guesses, name))
        found |= {Found(*each) for each in of_child}
    return found


def _of_guesses(name: str) -> set[Found]:
    return decides(name, _guessed(name))


def named(found: Found) -> bool:
    """It stands in the table."""
    from reprise import _native

    name, _, rest = found.name.partition(".")
    arguments: list[str] = _native._ops().deciding_arguments(name, rest)
    return found.argument in arguments


def main() -> int:
    """See above."""
    found = scan()
    for name, argument in sorted(found):
        print(f"{name}: {argument}")
    missing = sorted(each for each in found if not named(each))
    for name, argument in missing:
        print(f"{name}: decides by the values of '{argument}', and no table says so")
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
