"""Finds operators that choose kernels by a flag which their ops' words leave out.

    python tests/python/registry/flags.py [--device cuda] [--only gelu conv]

Each hooked operator is called by eager under each of torch's flags, set and not set. Where
the bits of its results differ, the operator goes by that flag, and a replay must not take
a call under the one for a call under the other: a program that calls it under one flag
until it is replayed, and then under the other, is compared with eager. So are programs that
set the flag for that call alone. Prints all operators that go by a flag, and exits with 1
if a program is not as eager's: the flag is missing in bindings/torch/runtime/switches.cc, or (on a
GPU) its class in `kSwitches` of bindings/torch/runtime/op_policy.cc.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import torch

here = pathlib.Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(here.parent))
    sys.path.append(str(here.parents[2] / "bindings" / "python"))

import reprise  # noqa: E402

from registry.calls import calls_of, units  # noqa: E402
from registry.effects import seed_generators  # noqa: E402
from registry.hooks import Call, check_device, hooks  # noqa: E402
from registry.memory import look  # noqa: E402

CALLS = 3  # of an operator
PASSES = 24
SWITCHED = 14  # the pass from which on the other flag is set
TIMEOUT_S = 60.0

Setter = Callable[[Any], object]


class Flag(NamedTuple):
    """A flag of torch's: how it is read and set, and two values of it."""

    name: str
    read: Callable[[], Any]
    write: Setter
    values: tuple[Any, Any]


def _attribute(module: Any, name: str, values: tuple[Any, Any] = (True, False)) -> Flag:
    return Flag(
        name,
        lambda: getattr(module, name),
        lambda value: setattr(module, name, value),
        values,
    )


def _switch(name: str) -> Flag:
    """By torch's own functions: some tests forbid to set its attributes."""
    read = getattr(torch._C, f"_get_{name}")
    write = getattr(torch._C, f"_set_{name}")
    return Flag(name, read, write, (True, False))


def _flush(value: bool) -> None:
    torch.set_flush_denormal(value)


def flags(device: str) -> list[Flag]:
    """All that may choose kernels on that device, or change what they do."""
    backends = torch.backends
    found = [
        _switch("mkldnn_enabled"),
        _switch("mkldnn_deterministic"),
        Flag(
            "deterministic algorithms",
            torch.are_deterministic_algorithms_enabled,
            lambda value: torch.use_deterministic_algorithms(value, warn_only=True),
            (False, True),
        ),
        Flag(
            "float32 matmul precision",
            torch.get_float32_matmul_precision,
            torch.set_float32_matmul_precision,
            ("highest", "medium"),
        ),
        Flag(
            "default dtype",
            torch.get_default_dtype,
            torch.set_default_dtype,
            (torch.float32, torch.float64),
        ),
        Flag(
            "gradients",
            torch.is_grad_enabled,
            torch._C._set_grad_enabled,
            (False, True),
        ),
    ]
    if device == "cpu":
        return [
            *found,
            _switch("nnpack_enabled"),
            Flag("threads", torch.get_num_threads, torch.set_num_threads, (1, 3)),
            Flag("denormals", lambda: False, _flush, (False, True)),
        ]
    cuda = backends.cuda
    return [
        *found,
        _switch("cudnn_enabled"),
        _switch("cudnn_deterministic"),
        _switch("cudnn_allow_tf32"),
        _attribute(cuda.matmul, "allow_tf32", (False, True)),
        _attribute(cuda.matmul, "allow_fp16_reduced_precision_reduction"),
        _attribute(cuda.matmul, "allow_bf16_reduced_precision_reduction"),
        _attribute(cuda.matmul, "allow_fp16_accumulation", (False, True)),
        Flag(
            "flash attention", cuda.flash_sdp_enabled, cuda.enable_flash_sdp, (True, False)
        ),
        Flag(
            "attention of cuDNN",
            cuda.cudnn_sdp_enabled,
            cuda.enable_cudnn_sdp,
            (True, False),
        ),
        Flag(
            "memory-efficient attention",
            cuda.mem_efficient_sdp_enabled,
            cuda.enable_mem_efficient_sdp,
            (True, False),
        ),
        Flag(
            "linear algebra",
            cuda.preferred_linalg_library,
            cuda.preferred_linalg_library,
            ("cusolver", "magma"),
        ),
    ]  # fmt: skip


@contextlib.contextmanager
def under(flag: Flag, value: Any) -> Iterator[None]:
    """With that value of the flag."""
    before = flag.read()
    flag.write(value)
    try:
        yield
    finally:
        flag.write(before)


def _made(call: Call, device: str) -> Any:
    """What a call returns, and what it has written."""
    copy = call.copy()
    seed_generators(device, 0)
    return look((copy.run(), copy.args, copy.kwargs))


def goes_by(call: Call, flag: Flag, device: str) -> bool:
    """Eager's bits are others under the other flag, and the same under the same one."""
    seen = []
    for value in (*flag.values, *flag.values):
        with under(flag, value):
            seen.append(_made(call, device))
    return seen[0] != seen[1] and seen[:2] == seen[2:]


def _run(
    call: Call, flag: Flag, device: str, values: list[Any], tick: Callable[[], object]
) -> list[Any]:
    """A pass for each value: the call under it, among ordinary ops under the first one."""
    weight = torch.linspace(0.5, 2, 24, device=device)
    found = []
    with under(flag, flag.values[0]):
        for value in values:
            copy = call.copy()
            seed_generators(device, 0)
            before = (weight * 2 + 1).tanh()
            with under(flag, value):
                result = copy.run()
            after = (before * 3).sin()
            found.append(look((result, copy.args, copy.kwargs, after)))
            tick()
    return found


def wrong(call: Call, flag: Flag, device: str) -> list[str]:
    """The programs that are not as eager."""
    first, other = flag.values
    programs = {
        "switched late": [first] * SWITCHED + [other] * (PASSES - SWITCHED),
        "switched each time": [other] * PASSES,
    }
    found = []
    for name, values in programs.items():
        expected = _run(call, flag, device, values, lambda: None)
        if _run(call, flag, device, values, lambda: None) != expected:
            continue
        with reprise.session(device, policy="always") as session:
            session.reset()
            seen = _run(call, flag, device, values, lambda s=session: s.wait(TIMEOUT_S))
            session.reset()
        if seen != expected:
            found.append(name)
    return found


def scan(device: str, only: list[str]) -> tuple[set[str], list[str]]:
    """Operators that go by flags, and what is wrong."""
    counts: dict[str, int] = {}
    found: set[str] = set()
    problems: list[str] = []

    def full(name: str) -> bool:
        wanted = not only or any(part in name for part in only)
        hook = hooks().get(name)  # an operator's kin are not hooked
        is_out = hook is None or bool(hook.cut)
        return not wanted or is_out or counts.get(name, 0) >= CALLS

    for unit in units():
        for call in calls_of(unit, device, CALLS, full):
            if full(call.name):
                continue
            counts[call.name] = counts.get(call.name, 0) + 1
            for flag in flags(device):
                text = f"{call.name} by {flag.name}"
                try:
                    if not goes_by(call, flag, device):
                        continue
                    found.add(text)
                    problems += [f"{text}: {way}" for way in wrong(call, flag, device)]
                except Exception:  # a call that cannot be repeated, after all
                    check_device()
    return found, problems


def main() -> int:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--only", nargs="*", default=[], help="parts of names")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    found, problems = scan(given.device, given.only)
    for text in sorted(found):
        print(text)
    for text in problems:
        print(f"PROBLEM {text}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
