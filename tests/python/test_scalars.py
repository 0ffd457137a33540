"""Numbers that are others at every call: eager's bits, and the trace is followed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import pytest
import torch
from torch.nn import functional
from watching import BUILD_TIMEOUT_S, assert_same_bits, check, settle, watched

Number = float | int | torch.Tensor
Body = Callable[[torch.Tensor, Number], torch.Tensor]

CALLS = 80
DTYPES = [torch.float32, torch.float16, torch.bfloat16]

# By these, or by their like in a narrower dtype, ops choose kernels, raise or
# give something else.
SPECIAL: list[float] = [
    *(0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 0.5, -0.5),
    *(float("inf"), float("-inf"), float("nan")),
    *(65504.0, 65505.0, 70000.0, 2.0**31, 3.3e38, 1e39, 1e300, 1e-8, 1e-40, 1e-300),
    *(2.0000001, 2.0004, 2.003, 1.0000001, 0.50001, 3.0000000001),
    *(1, 2, 4, 5, 7, -7, 127, 128, 255, 300, 40000, 70000, 2**31, 2**40),
    *(True, False),
]


def ordinary(call: int) -> float:
    return 4.1 + 0.37 * call


def as_float(value: float) -> Number:
    return float(value)


def as_int(value: float) -> Number:
    return int(value * 10)


def as_tensor(value: float) -> Number:
    return torch.tensor(value, dtype=torch.float64)


def as_narrow_tensor(value: float) -> Number:
    return torch.tensor(value, dtype=torch.float16)


KINDS = [as_float, as_int, as_tensor, as_narrow_tensor]


def _in_place(tensors: list[torch.Tensor], numbers: list[Number]) -> torch.Tensor:
    torch._foreach_mul_(tensors, numbers)
    torch._foreach_add_(tensors, numbers)
    return torch.stack(tensors)


BODIES: dict[str, Body] = {
    "mul": lambda x, t: x * t,
    "div": lambda x, t: x / t,
    "add": lambda x, t: x + t,
    "rsub": lambda x, t: t - x,
    "pow": lambda x, t: x.abs() ** t,
}
# Those that take no tensor in place of a number, too.
PLAIN_BODIES: dict[str, Body] = {
    **BODIES,
    "power of": lambda x, t: t**x,
    "inverse": lambda x, t: t / (x + 1),
    "floor": lambda x, t: torch.div(x, t, rounding_mode="floor"),
    "trunc": lambda x, t: torch.div(x, t, rounding_mode="trunc"),
    "remainder": lambda x, t: x % t,
    "fmod": lambda x, t: torch.fmod(x, t),
    "alpha": lambda x, t: torch.add(x, x, alpha=t),
    "sub_": lambda x, t: x.clone().sub_(x, alpha=t),
    "clamp": lambda x, t: torch.clamp(x, -0.25, t),
    "clamp_min": lambda x, t: x.clone().clamp_(min=t),
    "full": lambda x, t: x + torch.full((4, 16), t, device=x.device),
    "full_like": lambda x, t: x + torch.full_like(x, t),
    "fill_": lambda x, t: torch.empty_like(x).fill_(t) - x,
    "masked_fill": lambda x, t: x.masked_fill(x > 0.5, t),
    "addcmul": lambda x, t: torch.addcmul(x, x, x, value=t),
    "addcdiv_": lambda x, t: x.clone().addcdiv_(x, x + 1, value=t),
    "lerp": lambda x, t: torch.lerp(x, x + 1, t),
    "less": lambda x, t: (x < t).to(x.dtype),
    "equal": lambda x, t: (x == t).to(x.dtype) + x,
    "both": lambda x, t: torch.add(x * t, x, alpha=t) / t,
    "foreach": lambda x, t: torch.stack(torch._foreach_mul([x, x + 1], t)),
    "foreach alpha": lambda x, t: torch.stack(
        torch._foreach_add([x, x + 1], [x, x], alpha=t)
    ),
    "list": lambda x, t: torch.stack(torch._foreach_div([x] * 70, [t] * 70)),
    "lists": lambda x, t: torch.stack(
        torch._foreach_addcdiv([x] * 3, [x, x + 1, x], [x + 2] * 3, [t, t + 1, t])
    ),
    "list_": lambda x, t: _in_place([x + 1, x + 2], [t, t + 0.25]),
}

# Of more is decided by the number than what a kernel takes.
DECIDING: dict[str, Body] = {
    "arange": lambda x, t: x.sum() + torch.arange(0, t, device=x.device),
    "linspace": lambda x, t: x.sum() + torch.linspace(0.25, t, 5, device=x.device),
    "size": lambda x, t: x.sum() + torch.full((int(t),), 0.7, device=x.device),
    "dtype": lambda x, t: torch.full((4, 16), t, device=x.device) * 2,
    "start": lambda x, t: x.narrow(1, int(t) % 5, 8) * 1.7,
    "addmm": lambda x, t: torch.addmm(x, x, x.new_ones(16, 16), beta=t - 4, alpha=t),
    "baddbmm": lambda x, t: torch.baddbmm(
        x[None], x[None], x.new_ones(1, 16, 16), beta=t, alpha=t - 4
    ),
    "dropout": lambda x, t: functional.dropout(x, (t - 4) / 16, training=True),
    "softmax": lambda x, t: torch.softmax(x, int(t) % 2),
    "elu": lambda x, t: functional.elu(x - 1, t - 4),
    "leaky_relu": lambda x, t: functional.leaky_relu(x - 1, t - 4),
    "softplus": lambda x, t: functional.softplus(x, t - 3, 6 - t),
    "threshold": lambda x, t: functional.threshold(x, (t - 4) / 4, t),
    "histc": lambda x, t: torch.histc(x, 4, min=5 - t, max=t - 5),
    "norm": lambda x, t: torch.linalg.vector_norm(x, t - 4, dim=1),
    "renorm": lambda x, t: torch.renorm(x, t - 3, 0, 2.25),
    "clamp none": lambda x, t: torch.clamp(x, None if t < 5 else t, 6.5),
    "whole": lambda x, t: (x * 10).to(torch.int32) * t,
    "whole less": lambda x, t: ((x * 10).to(torch.uint8) < 50 * t).to(x.dtype),
    "byte fill": lambda x, t: torch.full_like(x, 30 * t, dtype=torch.uint8) // 2,
    "bool fill": lambda x, t: torch.full_like(x, t - 4, dtype=torch.bool).to(x.dtype),
    "complex": lambda x, t: torch.view_as_real((x + 2j * x) * t),
    "bool list": lambda x, t: torch.stack(torch._foreach_add([x, x], [t, t > 5])),
    "mixed list": lambda x, t: torch.stack(
        [y.float() for y in torch._foreach_pow([x, x.bfloat16()], t)]
    ),
    "power list": lambda x, t: torch.stack(torch._foreach_pow([x, x + 1], [t, t // 2])),
    "where": lambda x, t: torch.where(x > 0.5, x, t),
}


def attempt(step: Callable[[], torch.Tensor]) -> torch.Tensor | str:
    """The result, or what was raised."""
    try:
        return step()
    except (RuntimeError, OverflowError, TypeError, ValueError) as error:
        return f"{type(error).__name__}: {error}"


def make_step(body: Body, weight: torch.Tensor) -> Callable[..., torch.Tensor]:
    def step(x: torch.Tensor, t: Number) -> torch.Tensor:
        h = torch.relu(x @ weight)
        h = torch.sigmoid(h)
        h = body(h, t)
        return torch.tanh(h) + 1

    return step


def run(
    device: str,
    body: Body,
    dtype: torch.dtype,
    numbers: Sequence[Number],
) -> float:
    """The share of ops that were followed; results are compared with eager's."""
    weight = torch.randn(16, 16, device=device).to(dtype)
    inputs = [torch.randn(4, 16, device=device).to(dtype) for _ in numbers]
    step = make_step(body, weight)
    with torch.no_grad():
        with watched(device) as session:
            pairs = iter(zip(inputs, numbers, strict=True))
            kept = []
            settle(session, lambda: kept.append(step(*next(pairs))))
            settle(session, lambda: kept.append(step(*next(pairs))))
            before = session.stats()
            for pair in pairs:
                kept.append(step(*pair))
                assert session.wait(BUILD_TIMEOUT_S)
            after = session.stats()
            report = str(session.explain())
        expected = [step(x, t) for x, t in zip(inputs, numbers, strict=True)]
    assert_same_bits(kept, expected)
    assert after.replays > before.replays, report
    print(report)
    return (after.followed - before.followed) / (after.ops - before.ops)


def compare(
    device: str,
    body: Body,
    dtype: torch.dtype,
    numbers: Sequence[Number],
    *,
    looks: bool = False,
) -> None:
    """Every call gives or raises what eager does, whatever is followed.

    The host `looks` at each result, or calls follow each other without an end.
    """
    weight = torch.randn(16, 16, device=device).to(dtype)
    inputs = [torch.randn(4, 16, device=device).to(dtype) for _ in numbers]
    step = make_step(body, weight)

    def call(index: int) -> torch.Tensor | str:
        torch.manual_seed(index)
        return attempt(lambda: step(inputs[index], numbers[index]))

    with torch.no_grad():
        found = []
        with watched(device) as session:
            for index in range(len(numbers)):
                found.append(call(index))
                if looks and isinstance(found[-1], torch.Tensor):
                    found[-1].tolist()
                if index < len(numbers) - 8:
                    assert session.wait(BUILD_TIMEOUT_S)
            stats = session.stats()
            report = str(session.explain())
        expected = [call(index) for index in range(len(numbers))]
    for index, (left, right) in enumerate(zip(found, expected, strict=True)):
        where = f"call {index} with {numbers[index]}"
        if isinstance(right, str) or isinstance(left, str):
            assert left == right, where
        else:
            assert_same_bits(left, right, where)
    assert stats.replays > 0, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", PLAIN_BODIES)
def test_a_float_that_changes(device: str, name: str, dtype: torch.dtype) -> None:
    numbers = [as_float(ordinary(call)) for call in range(CALLS)]
    assert run(device, PLAIN_BODIES[name], dtype, numbers) > 0.8


@pytest.mark.parametrize("kind", [as_int, as_tensor, as_narrow_tensor])
@pytest.mark.parametrize("name", BODIES)
def test_other_numbers_that_change(
    device: str, name: str, kind: Callable[[float], Number]
) -> None:
    numbers = [kind(ordinary(call) / 3) for call in range(CALLS)]
    assert run(device, BODIES[name], torch.float32, numbers) > 0.8


@pytest.mark.parametrize("name", ["mul", "div", "pow"])
def test_numbers_by_which_ops_choose_in_between(device: str, name: str) -> None:
    special: list[float] = [1, 0, 2, -1, 3]
    numbers: list[Number] = [
        float(special[call // 16 % len(special)]) if call % 16 == 15 else ordinary(call)
        for call in range(2 * CALLS)
    ]
    assert run(device, BODIES[name], torch.float32, numbers) > 0.8


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("name", PLAIN_BODIES)
def test_special_numbers_are_never_taken_for_others(
    device: str, name: str, dtype: torch.dtype
) -> None:
    draw = random.Random(7)
    numbers: list[Number] = [ordinary(call) for call in range(24)]
    for value in SPECIAL:
        numbers += [value, value] if draw.random() < 0.5 else [value]
        numbers += [draw.choice([1, -1]) * ordinary(draw.randrange(40))]
    compare(device, PLAIN_BODIES[name], dtype, numbers)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8])
@pytest.mark.parametrize("name", ["mul", "div", "pow", "floor", "less", "full_like"])
def test_whole_tensors(device: str, name: str, dtype: torch.dtype) -> None:
    def body(x: torch.Tensor, t: Number) -> torch.Tensor:
        return PLAIN_BODIES[name]((x * 9).to(dtype), t).to(torch.float64)

    draw = random.Random(9)
    numbers: list[Number] = [4 + call % 11 for call in range(32)]
    for value in SPECIAL:
        numbers += [value, draw.randrange(4, 20), draw.uniform(4, 20)]
    # Dividing whole numbers by nought stops the device or the process.
    if name == "floor":
        numbers = [t for t in numbers if t]
    # What comes again after eleven calls is new at first, and no trace's beginning.
    compare(device, body, torch.float32, numbers, looks=True)


@pytest.mark.parametrize("name", DECIDING)
def test_numbers_that_decide_more_than_what_a_kernel_takes(
    device: str, name: str
) -> None:
    draw = random.Random(11)
    choices: list[Callable[[], Number]] = [
        lambda: draw.randrange(4, 8),
        lambda: float(draw.randrange(4, 8)),
        lambda: draw.uniform(4, 8),
        lambda: 4.5,
        lambda: 5,
    ]
    steady: list[Number] = [5.25] * 10
    numbers = [*steady, *(draw.choice(choices)() for _ in range(2 * CALLS)), *steady]
    compare(device, DECIDING[name], torch.float32, numbers)


@pytest.mark.parametrize("dtype", DTYPES)
def test_kinds_of_numbers_take_turns(device: str, dtype: torch.dtype) -> None:
    draw = random.Random(13)
    numbers = [draw.choice(KINDS)(ordinary(call % 40) / 2) for call in range(3 * CALLS)]
    compare(device, BODIES["mul"], dtype, numbers)


def test_a_number_that_changes_now_and_then(device: str) -> None:
    """As a learning rate does: a constant, and then another one."""
    numbers: list[Number] = [ordinary(call // 25) for call in range(150)]
    assert run(device, BODIES["mul"], torch.float32, numbers) > 0.7


def test_elements_of_a_list_that_part(device: str) -> None:
    """They all were one number in each pass that was recorded."""

    def body(x: torch.Tensor, t: Number) -> torch.Tensor:
        numbers = [t] * 70
        if t > ordinary(CALLS):
            numbers[40] = t + 0.125
        return torch.stack(torch._foreach_mul([x] * 70, numbers))

    numbers = [ordinary(call) for call in range(3 * CALLS)]
    assert run(device, body, torch.float32, numbers) > 0.8


@pytest.mark.parametrize("first", [0, 80])
@pytest.mark.parametrize("name", ["mul", "div", "list", "lists"])
def test_numbers_that_converge(device: str, name: str, first: int) -> None:
    """As corrections for bias do: to 1, and long before to what a float32 holds."""
    numbers = [1 - 0.8**call for call in range(first + 3, first + 3 + CALLS)]
    # On a GPU division multiplies with the inverse, which is rounded at other calls.
    least = 0.3 if name == "div" else 0.7
    assert run(device, PLAIN_BODIES[name], torch.float32, numbers) > least


def test_gradients_with_a_scale_that_changes(device: str) -> None:
    weight = torch.randn(16, 16, device=device, requires_grad=True)

    def step(pair: tuple[torch.Tensor, float]) -> list[torch.Tensor]:
        x, scale = pair
        loss = (torch.tanh(x @ weight) * scale).pow(2).mean() / (scale + 1)
        return [loss.detach(), *torch.autograd.grad(loss, [weight])]

    pairs = [(torch.randn(4, 16, device=device), ordinary(i)) for i in range(CALLS)]
    stats = check(device, step, pairs)
    assert stats.followed > stats.ops / 2
