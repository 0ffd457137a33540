"""Errors of operators inside of regions: handled where the callable handles them."""

from __future__ import annotations

import contextlib
import functools
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import reprise
import torch
from torch import nn
from watching import assert_same_bits

CALLS = 6
BEHIND = "an except, a finally, or a with that swallows errors"
BEFORE = "an operator has raised an error before anything was written"

Fn = Callable[[torch.Tensor], torch.Tensor]


def matrix(device: str, good: bool) -> torch.Tensor:
    scale = 2.0 if good else -2.0
    return torch.eye(3, device=device) * (scale + torch.rand((), device=device))


def result_of(fn: Fn, given: torch.Tensor) -> torch.Tensor | str:
    """What it returns, or the error that it raises."""
    try:
        return fn(given)
    except RuntimeError as error:
        return f"{type(error).__name__}: {error}"


def assert_same_result(fast: Fn, plain: Fn, given: torch.Tensor) -> None:
    """The same bits, or the same error."""
    found, expected = result_of(fast, given), result_of(plain, given)
    if isinstance(expected, str):
        assert found == expected
    else:
        assert isinstance(found, torch.Tensor), found
        assert_same_bits([found], [expected])


def check(device: str, fn: Fn, calls: str = "gggggbgbg") -> reprise.RegionReport:
    """By good and bad matrices: each call is as eager's."""
    fast: Any = reprise.region(fn)
    for each in calls:
        assert_same_result(fast, fn, matrix(device, each == "g"))
    report: reprise.RegionReport = fast.explain()
    return report


def factor(a: torch.Tensor) -> torch.Tensor:
    return torch.linalg.cholesky(a + 0)


def handled(a: torch.Tensor) -> torch.Tensor:
    try:
        return factor(a)
    except torch.linalg.LinAlgError:
        return factor(a + 6 * torch.eye(3, device=a.device))


def test_a_handler_before_any_write(device: str) -> None:
    report = check(device, handled)
    assert report.replayed >= 5, str(report)
    assert report.reasons[BEFORE][0] == 2


def test_an_error_that_nobody_handles(device: str) -> None:
    report = check(device, factor)
    assert report.replayed >= 5, str(report)


def test_an_error_behind_a_write_is_raised(device: str) -> None:
    """What was written before it stays, as in eager, and is not written twice."""
    counts = [torch.zeros((), device=device) for _ in range(2)]

    def counting(count: torch.Tensor) -> Fn:
        def fn(a: torch.Tensor) -> torch.Tensor:
            count.add_(1)
            return factor(a)

        return fn

    plain = counting(counts[0])
    fast: Any = reprise.region(counting(counts[1]))
    for each in "gggggbgbg":
        assert_same_result(fast, plain, matrix(device, each == "g"))
        assert_same_bits(counts[1:], counts[:1])
    assert fast.explain().replayed >= 4, str(fast.explain())


@contextlib.contextmanager
def swallowing() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        del error


@contextlib.contextmanager
def restoring() -> Iterator[None]:
    try:
        yield
    finally:
        pass


@contextlib.contextmanager
def swallowing_inside() -> Iterator[None]:
    with contextlib.suppress(RuntimeError):
        yield


class Swallows:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> bool:
        return error[0] is RuntimeError


class EntersStatically(Swallows):
    @staticmethod
    def __enter__() -> None:
        pass


class EntersByAnotherName(Swallows):
    def begin(self) -> None:
        pass

    __enter__ = begin


class EntersByAnObject(Swallows):
    __enter__ = staticmethod(functools.partial(int))  # type: ignore[assignment]


class EntersInC(io.StringIO):
    def __exit__(self, *error: object) -> bool:  # type: ignore[override]
        return error[0] is RuntimeError


class Raises(Swallows):
    def __exit__(self, *error: object) -> bool:
        if error[0] is not None:
            raise RuntimeError from None
        return False


@contextlib.contextmanager
def writing_back(tensor: torch.Tensor, before: torch.Tensor) -> Iterator[None]:
    try:
        yield
    finally:
        tensor.copy_(before)


class WritesBack:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor
        self.before = tensor.clone()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        self.tensor.copy_(self.before)


class Closes:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor

    def close(self) -> None:
        self.tensor.zero_()


class Restores:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        pass


def by_except(a: torch.Tensor) -> torch.Tensor:
    try:
        return factor(a)
    except RuntimeError:
        return a * 2


def by_finally(a: torch.Tensor) -> torch.Tensor:
    b = a * 2
    try:
        b = factor(a)
    finally:
        b.add_(1)
    return b


def by_suppress(a: torch.Tensor) -> torch.Tensor:
    with contextlib.suppress(RuntimeError):
        return factor(a)
    return a * 2


def by_generator(a: torch.Tensor) -> torch.Tensor:
    with swallowing():
        return factor(a)
    return a * 2


def by_inner_with(a: torch.Tensor) -> torch.Tensor:
    with swallowing_inside():
        return factor(a)
    return a * 2


def by_class(a: torch.Tensor) -> torch.Tensor:
    with Restores(), Swallows():
        return factor(a)
    return a * 2


def by_static_enter(a: torch.Tensor) -> torch.Tensor:
    with EntersStatically():
        return factor(a)
    return a * 2


def by_another_name(a: torch.Tensor) -> torch.Tensor:
    with EntersByAnotherName():
        return factor(a)
    return a * 2


def by_an_object(a: torch.Tensor) -> torch.Tensor:
    with EntersByAnObject():
        return factor(a)
    return a * 2


def by_enter_in_c(a: torch.Tensor) -> torch.Tensor:
    with EntersInC():
        return factor(a)
    return a * 2


def by_raising(a: torch.Tensor) -> torch.Tensor:
    with Raises():
        return factor(a)


def by_stack(a: torch.Tensor) -> torch.Tensor:
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.suppress(RuntimeError))
        return factor(a)
    return a * 2


def by_generator_that_writes(a: torch.Tensor) -> torch.Tensor:
    with writing_back(a.clone(), a):
        return factor(a)


def by_class_that_writes(a: torch.Tensor) -> torch.Tensor:
    with WritesBack(a.clone()):
        return factor(a)


def by_closing(a: torch.Tensor) -> torch.Tensor:
    with contextlib.closing(Closes(a.clone())):
        return factor(a)


def by_an_outer_try(a: torch.Tensor) -> torch.Tensor:
    try:
        with torch.no_grad(), Restores():
            for _ in range(2):
                a = factor(a)
    except RuntimeError:
        pass
    return a


HANDLING = [
    by_except,
    by_finally,
    by_suppress,
    by_generator,
    by_inner_with,
    by_class,
    by_static_enter,
    by_another_name,
    by_an_object,
    by_enter_in_c,
    by_raising,
    by_stack,
    by_generator_that_writes,
    by_class_that_writes,
    by_closing,
    by_an_outer_try,
]


def test_a_manager_that_writes_parameters_back(device: str) -> None:
    """As averages of weights are used for a while: behind an error they are as before."""
    weights = [torch.ones(4, 3, device=device) for _ in range(2)]

    def averaged(weight: torch.Tensor) -> Fn:
        def fn(a: torch.Tensor) -> torch.Tensor:
            with writing_back(weight, weight.clone()):
                weight.mul_(0.5)
                return factor(a) + weight[0]

        return fn

    plain, fast = averaged(weights[0]), reprise.region(averaged(weights[1]))
    for each in "gggggbgbg":
        assert_same_result(fast, plain, matrix(device, each == "g"))
        assert_same_bits(weights[1:], weights[:1])


@pytest.mark.parametrize("fn", HANDLING, ids=lambda fn: fn.__name__)
def test_a_handler_behind_an_effect_declines(device: str, fn: Fn) -> None:
    count = torch.zeros((), device=device)

    def behind(a: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return fn(a) * 1

    with torch.no_grad():
        report = check(device, behind)
    assert report.replayed == 0, str(report)
    (reason, (_, place)), *_ = report.reasons.items()
    assert reason.startswith(BEHIND), str(report)
    lines = range(fn.__code__.co_firstlineno, fn.__code__.co_firstlineno + 12)
    assert place in [f"{__file__}:{line}" for line in lines], place


@pytest.mark.parametrize("fn", HANDLING, ids=lambda fn: fn.__name__)
def test_a_handler_behind_random_numbers(device: str, fn: Fn) -> None:
    """They are drawn once more where the callable runs, and are the same."""

    def drawing(a: torch.Tensor) -> torch.Tensor:
        return fn(a + 0.1 * torch.rand_like(a).tril()) + torch.rand_like(a)

    fast: Any = reprise.region(drawing)
    generator: Any = torch.cuda if device == "cuda" else torch
    with torch.no_grad():
        for call, each in enumerate("gggggbgbgg"):
            given, ends = matrix(device, each == "g"), []
            found = []
            for run in (fast, drawing):
                torch.manual_seed(call)
                found.append(result_of(run, given))
                ends.append(generator.get_rng_state())
            assert torch.equal(*ends)
            if isinstance(found[0], str):
                assert found[0] == found[1]
            else:
                assert_same_bits(found[:1], found[1:])
    report = fast.explain()
    assert report.replayed >= 5, str(report)
    assert report.reasons[BEFORE][0] == 2, str(report)


NOTHING: tuple[type[Exception], ...] = ()


def restored(a: torch.Tensor) -> torch.Tensor:
    with (
        restoring(),
        Restores(),
        torch.enable_grad(),
        contextlib.nullcontext(),
        contextlib.suppress(*NOTHING),
    ):
        return factor(a)


def test_managers_that_swallow_nothing(device: str) -> None:
    count = torch.zeros((), device=device)

    def fn(a: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        with torch.autocast(device, enabled=False):
            pass
        with torch.device(device):
            return restored(a)

    report = check(device, fn, "ggggg")
    assert report.replayed >= 2, str(report)


class Wrapped(nn.Module):
    """As libraries wrap a model's forward pass: an attribute is put back behind it."""

    def __init__(self, inner: Fn) -> None:
        super().__init__()
        self.inner = inner
        self.causal = True

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before, self.causal = self.causal, self.causal
        try:
            return self.inner(x)
        finally:
            self.causal = before


def attention(x: torch.Tensor, dropout: float = 0.0) -> torch.Tensor:
    heads = x.reshape(1, 1, *x.shape)
    attend = nn.functional.scaled_dot_product_attention
    return attend(heads, heads, heads, dropout_p=dropout)[0, 0].relu() + 1


def normed(x: torch.Tensor) -> torch.Tensor:
    mean, var = torch.zeros_like(x[0]), torch.ones_like(x[0])
    x = nn.functional.batch_norm(x, mean, var, training=False)
    x = nn.functional.instance_norm(
        x[None], x[0], x[0].abs() + 1, use_input_stats=False
    )[0]
    return nn.functional.dropout(x, 0.5, training=False) * 2


@pytest.mark.parametrize("always", [True, False])
def test_a_hook_that_is_always_called(device: str, always: bool) -> None:
    """It is called behind an error, too."""
    counts = [torch.zeros((), device=device) for _ in range(2)]

    def counting(count: torch.Tensor) -> Wrapped:
        model = Wrapped(lambda a: factor(a + 0 * count.add_(1)))
        hook = lambda *_: count.mul_(2)  # noqa: E731
        model.register_forward_hook(hook, always_call=always)
        model.forward = model.inner
        return model

    plain = counting(counts[0])
    fast: Any = reprise.region(counting(counts[1]))
    with torch.no_grad():
        for each in "gggggbgbg":
            given = matrix(device, each == "g")
            found, expected = result_of(fast, given), result_of(plain, given)
            assert isinstance(found, str) == isinstance(expected, str)
            assert_same_bits(counts[1:], counts[:1])
    assert (fast.explain().replayed > 0) == (not always), str(fast.explain())


@pytest.mark.parametrize("inner", [attention, normed], ids=lambda fn: fn.__name__)
def test_a_handler_round_what_is_switched_off(device: str, inner: Fn) -> None:
    """Dropout of nothing draws nothing, and norms that do not train write nothing."""
    model = Wrapped(inner).to(device).eval()
    with torch.no_grad():
        report = check(device, model, "ggggg")
        assert report.replayed >= 2, str(report)
        given = matrix(device, True)
        generator: Any = torch.cuda if device == "cuda" else torch
        before = generator.get_rng_state()
        model(given)
        assert torch.equal(before, generator.get_rng_state())


def test_dropout_whose_probability_is_an_argument(device: str) -> None:
    """It is zero in some of its calls, and a handler stands round it."""

    def fn(x: torch.Tensor, dropout: float) -> torch.Tensor:
        try:
            return factor(attention(x, dropout) * 0 + x)
        except torch.linalg.LinAlgError:
            return x

    fast: Any = reprise.region(fn)
    for number in range(12):
        given = matrix(device, number % 4 != 3)
        dropout = 0.0 if number % 3 else 0.25
        torch.manual_seed(number)
        found = fast(given, dropout)
        torch.manual_seed(number)
        assert_same_bits([found], [fn(given, dropout)])


def test_a_number_of_the_host_may_raise(device: str) -> None:
    """An operator whose tensors are all of the host, and numbers."""
    counts = [torch.zeros((), device=device) for _ in range(2)]

    def counting(count: torch.Tensor) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
            count.add_(1)
            try:
                r = torch.div(x, by, rounding_mode="floor")
            except RuntimeError:
                r = x * 0 - 1
            return r.to(device) + count

        return fn

    plain = counting(counts[0])
    fast: Any = reprise.region(counting(counts[1]))
    with torch.no_grad():
        for number in range(12):
            given = torch.tensor(7), torch.tensor(0 if number % 5 == 4 else 2)
            assert_same_bits([fast(*given)], [plain(*given)])
    assert_same_bits(counts[1:], counts[:1])


def test_a_float_that_varies_may_raise(device: str) -> None:
    """It is checked on the host, whatever the device."""
    counts = [torch.zeros((), device=device) for _ in range(2)]

    def counting(count: torch.Tensor) -> Callable[..., torch.Tensor]:
        def fn(x: torch.Tensor, std: float) -> torch.Tensor:
            count.add_(1)
            try:
                r = torch.normal(0.0, std, size=(3,), device=device)
            except RuntimeError:
                r = torch.zeros(3, device=device)
            return r + count + x

        return fn

    plain = counting(counts[0])
    fast: Any = reprise.region(counting(counts[1]))
    x = torch.zeros(3, device=device)
    with torch.no_grad():
        for number in range(12):
            std = -1.0 if number % 5 == 4 else 1.0 + number
            torch.manual_seed(number)
            found = fast(x, std)
            torch.manual_seed(number)
            assert_same_bits([found], [plain(x, std)])
    assert_same_bits(counts[1:], counts[:1])


def test_a_switch_of_another_librarys_operator(device: str) -> None:
    """`training=False` says nothing there: it draws all the same."""

    @torch.library.custom_op(
        f"reprise_test::noise_{device}",
        mutates_args=(),
        tags=(torch.Tag.nondeterministic_seeded,),
    )
    def noise(x: torch.Tensor, training: bool = False) -> torch.Tensor:
        return torch.rand_like(x) + x

    noise.register_fake(lambda x, training=False: torch.empty_like(x))

    def fn(x: torch.Tensor) -> torch.Tensor:
        x = noise(x)
        return x * 2 if x.sum().item() > 9 else x * 3

    fast: Any = reprise.region(fn)
    kept = []
    with torch.no_grad():
        for run in (fn, fast):
            torch.manual_seed(8)
            kept.append([run(matrix(device, True)) for _ in range(14)])
    assert_same_bits(kept[1], kept[0])


def test_a_handler_round_what_a_gpu_computes(device: str) -> None:
    """An operator on a GPU's tensors knows nothing of them before the host waits."""
    count = torch.zeros((), device=device)

    def inner(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        x = nn.functional.dropout(x, 0.3)
        return (x @ x).softmax(-1) + count

    model = Wrapped(inner)

    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x) * 2

    fast: Any = reprise.region(step)
    kept = []
    with torch.no_grad():
        for run in (step, fast):
            count.zero_()
            torch.manual_seed(4)
            kept.append([run(matrix(device, True)) for _ in range(8)])
    assert_same_bits(kept[1], kept[0])
    report = fast.explain()
    if device == "cuda":
        assert report.replayed >= 4, str(report)
    else:
        assert report.replayed == 0
        assert any(reason.startswith(BEHIND) for reason in report.reasons), str(report)


def test_a_training_step_that_reads_inside_of_a_handler(device: str) -> None:
    """As transformers looks at positions. To read a value raises nothing."""
    torch.manual_seed(0)
    layers = [nn.Linear(3, 3).to(device) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())

    def step_of(layer: nn.Linear) -> Fn:
        def inner(x: torch.Tensor) -> torch.Tensor:
            if bool((x > -1e9).all()):
                x = x * 2
            return nn.functional.dropout(layer(x), 0.3)

        model = Wrapped(inner)
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

        def step(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    fast: Any = reprise.region(step_of(layers[1]))
    kept = []
    for run in (step_of(layers[0]), fast):
        torch.manual_seed(6)
        kept.append([run(matrix(device, True)) for _ in range(10)])
    assert_same_bits(kept[1], kept[0])
    assert_same_bits(list(layers[1].parameters()), list(layers[0].parameters()))
    report = fast.explain()
    if device == "cuda":
        assert report.replayed >= 4, str(report)
    else:
        assert report.replayed == 0


def waits(x: torch.Tensor) -> torch.Tensor:
    """Raises by what it finds once the host has waited (`histc` looks at it)."""
    try:
        return torch.histc(x / (x.sum() > 0).float(), 9).view(3, 3)
    except RuntimeError:
        return x * 2


def test_an_operator_that_waits_inside_of_a_handler(device: str) -> None:
    count = torch.zeros((), device=device)

    def fn(x: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return waits(x) * 0 + count

    with torch.no_grad():
        report = check_counted(device, fn, count)
    assert report.replayed == 0, str(report)


def check_counted(device: str, fn: Fn, count: torch.Tensor) -> reprise.RegionReport:
    """Good and bad matrices; what it writes is eager's, too."""
    fast: Any = reprise.region(fn)
    kept = []
    for run in (fn, fast):
        count.zero_()
        torch.manual_seed(5)
        kept.append([run(matrix(device, each == "g")) for each in "gggggbgbg"])
    assert_same_bits(kept[1], kept[0])
    report: reprise.RegionReport = fast.explain()
    return report


def test_a_training_step(device: str) -> None:
    """Torch's own handlers round what an optimizer writes put modes back."""
    net = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)).to(device)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5)

    @reprise.region
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(CALLS):
        step(torch.randn(3, 4, device=device))
    report = step.explain()  # type: ignore[attr-defined]
    assert report.replayed >= 2, str(report)
