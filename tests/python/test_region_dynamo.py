"""Dynamo runs this package's Python as it is, and regions go on beside compiled programs."""

from __future__ import annotations

import functools
import gc
import importlib
import inspect
import pathlib
import pkgutil
import types
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
import reprise
import torch
from reprise import _dynamo
from reprise._open_recording import OpenRecording
from torch import nn
from watching import assert_same_bits

CALLS = 8
PACKAGE = pathlib.Path(reprise.__file__).parent
# By file: the functions that Dynamo may trace. Each begins with `is_compiling()`.
HEADS = {
    ("_region.py", "__call__"),
    ("_region.py", "__get__"),
    ("_region_method.py", "__call__"),
    ("_regions.py", "__call__"),
    ("_eager.py", "__call__"),
    ("_eager.py", "__get__"),
}
# Programs of their own, which are not loaded with the package.
COMMANDS = ("reprise.__main__", "reprise._doctor")
BACKENDS = [pytest.param("eager", id="eager"), pytest.param(reprise.backend, id="own")]


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def functions_in(path: pathlib.Path) -> set[tuple[str, str, int]]:
    """As the source has them, whatever modules make of them.

    Bodies of modules and of classes have run before a program begins.
    """
    found = set()
    nothing = (lambda: None).__code__.co_code
    left = [(compile(path.read_text(), str(path), "exec"), True)]
    while left:
        code, is_body = left.pop()
        for each in code.co_consts:
            if isinstance(each, types.CodeType):
                of_class = {"__module__", "__qualname__"} <= {*each.co_names}
                within = is_body and (of_class or each.co_name.startswith("<gen"))
                left.append((each, within))
        if not is_body and code.co_code != nothing:  # as of overloads
            found.add((path.name, code.co_name, code.co_firstlineno))
    return found


def test_all_functions_of_the_package_are_hidden() -> None:
    """Each one in its sources, be it a method, a callback or one that another makes."""
    hidden = {
        (pathlib.Path(code.co_filename).name, code.co_name, code.co_firstlineno)
        for code in _dynamo.HIDDEN
    }
    for module in pkgutil.walk_packages([str(PACKAGE)], "reprise."):
        if module.name.startswith(COMMANDS):
            continue
        loaded = importlib.import_module(module.name)
        assert loaded.__file__, "loaded with the package"
        of_source = functions_in(pathlib.Path(loaded.__file__))
        left = {each for each in of_source - hidden if each[:2] not in HEADS}
        assert not left, f"Dynamo may trace {left}"


def test_no_function_of_the_package_is_inlined() -> None:
    functions = list(_dynamo.functions_of("reprise"))
    assert len(functions) > 200
    for function in functions:
        name = pathlib.Path(function.__code__.co_filename).name, function.__name__
        of_command = function.__module__.startswith(COMMANDS)  # another test's import
        if name not in HEADS and not of_command:
            assert inspect.getattr_static(function, "_torchdynamo_disable"), name


def a_region_that_is_differentiated() -> None:
    fast: Any = reprise.region(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    for layout in (False, True):
        for _ in range(CALLS):
            result = fast(torch.ones(4, 3, requires_grad=True))
            # Behind the first ones with gradients that no tape has: the callable runs.
            gradient = torch.ones(3, 4).t() if layout else torch.ones(4, 3)
            result.backward(gradient, retain_graph=True)
            result.backward(gradient)
    assert fast.explain().backward > 0


def a_region_that_is_differentiated_twice() -> None:
    fast: Any = reprise.region(nn.Sequential(nn.Linear(3, 3), nn.Tanh()))
    for _ in range(CALLS):
        x = torch.ones(4, 3, requires_grad=True)
        (gradient,) = torch.autograd.grad(fast(x).sum(), x, create_graph=True)
        gradient.sum().backward()


def a_whole_step() -> None:
    net = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)

    @reprise.region
    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(CALLS):
        step(torch.ones(4, 3))
    assert step.explain().replayed > 0  # type: ignore[attr-defined]


def a_function_that_runs_each_time() -> None:
    @reprise.eager
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    fast: Any = reprise.region(lambda x: twice(x + 1) + 1)
    with torch.no_grad():
        for _ in range(CALLS):
            fast(torch.ones(3))
    assert fast.explain().replayed > 0


def a_method_and_objects() -> None:
    class Scale:
        by = 2.0

        @reprise.region
        def scaled(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.by

    class Given:
        pass

    scale = Scale()
    fast: Any = reprise.region(lambda x, given: x + given.by)
    for _ in range(CALLS):
        scale.scaled(torch.ones(3))
        given = Given()
        given.by = torch.ones(3)  # type: ignore[attr-defined]
        fast(torch.ones(3), given)
    del scale, given, fast
    gc.collect()  # references tell of what has gone


def sessions_and_reports() -> None:
    with reprise.session("cpu") as session, reprise.timeline():
        for _ in range(CALLS):
            torch.ones(3) + 1
        session.wait()
        str(session.explain())
        session.stats()
    reprise.options()
    str(reprise.explain())
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.ones(3) + 1


@pytest.mark.parametrize(
    "program",
    [
        a_region_that_is_differentiated,
        a_region_that_is_differentiated_twice,
        a_whole_step,
        a_function_that_runs_each_time,
        a_method_and_objects,
        sessions_and_reports,
    ],
)
def test_what_dynamo_is_asked_about(program: Callable[[], None]) -> None:
    """While a program runs in which Dynamo is on, as it does between compiled parts."""
    from torch._dynamo.types import ConvertFrameReturn

    frames = torch._C._dynamo.eval_frame
    asked: set[tuple[str, str]] = set()

    def note(frame: Any, *_: Any) -> Any:
        path = pathlib.Path(frame.f_code.co_filename)
        if path.parent == PACKAGE:
            asked.add((path.name, frame.f_code.co_name))
        return ConvertFrameReturn()

    before = frames.set_eval_frame(note)
    try:
        program()
    finally:
        frames.set_eval_frame(before)
    assert asked <= HEADS


def a_net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))


def trained(
    net: Any, compiled: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> list[torch.Tensor]:
    """By a function that calls `backward()` and the optimizer."""
    optimizer = torch.optim.AdamW(net.parameters(), 0.01, fused=True)

    @torch.compiler.disable
    def forward(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = net(x)
        return result

    @compiled
    def step(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = (forward(x) - t).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    generator = torch.Generator().manual_seed(1)

    def draw(*sizes: int) -> torch.Tensor:
        return torch.randn(*sizes, generator=generator)

    losses = [step(draw(5, 6), draw(5, 1)) for _ in range(CALLS)]
    return [*losses, *(each.detach().clone() for each in net.parameters())]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_region_is_trained_by_a_compiled_step(backend: Any) -> None:
    """Its backward pass runs where Dynamo is on, and is recorded there."""
    fast: Any = reprise.region(a_net())
    other: Any = reprise.region(lambda x: x * 2)
    found = trained(fast, functools.partial(torch.compile, backend=backend))
    expected = trained(a_net(), lambda step: step)
    assert_same_bits(found, expected)
    assert fast.explain().backward > 0, str(fast.explain())
    for _ in range(CALLS):
        assert_same_bits(other(torch.ones(3)), torch.full((3,), 2.0))
    assert other.explain().replayed > 0, str(other.explain())
    assert not other.explain().reasons


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_compiled_step_leaves_no_recording_open(backend: Any) -> None:
    net, plain = a_net(), a_net()

    def step(net: Any, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        loss: torch.Tensor = (net(x) - t).square().mean()
        loss.backward()
        return loss.detach()

    fast = torch.compile(step, backend=backend)
    other: Any = reprise.region(nn.Linear(6, 6).eval())
    for _ in range(CALLS):
        x, t = torch.randn(5, 6), torch.randn(5, 1)
        assert_same_bits(fast(net, x, t), step(plain, x, t))
        with torch.no_grad():
            other(x)
    for a, b in zip(net.parameters(), plain.parameters(), strict=True):
        assert_same_bits(a.grad, b.grad)
    assert other.explain().replayed > 0, str(other.explain())


class Scale:
    by = 3.0

    @reprise.region
    def scaled(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by

    @reprise.eager
    def eagerly(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.by


@reprise.eager
def doubled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_a_region_within_a_compiled_function_is_its_callable() -> None:
    """Of a module, a function and a method: one graph, of the program's operators."""
    net, scale = a_net(), Scale()
    region: Any = reprise.region(net)
    function: Any = reprise.region(lambda x: x * 2 + 1)
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    @functools.partial(torch.compile, backend=backend, fullgraph=True)
    def compiled(x: torch.Tensor) -> Any:
        return region(x), scale.scaled(function(x)), scale.eagerly(doubled(x))

    for _ in range(CALLS):
        x = torch.randn(5, 6)
        expected = net(x), (x * 2 + 1) * scale.by, x * 2 * scale.by
        assert_same_bits(compiled(x), expected)
    assert len(graphs) == 1
    assert region.explain().calls == 0


def test_a_region_of_a_module_is_compiled_as_the_module() -> None:
    net = a_net()
    compiled = torch.compile(reprise.region(net), backend="eager", fullgraph=True)
    for _ in range(CALLS):
        x = torch.randn(5, 6)
        assert_same_bits(compiled(x), net(x))


def a_gradient(count: int, x: torch.Tensor) -> torch.Tensor:
    """Of another layout from a certain call on."""
    return torch.randn(x.shape) if count < 6 else torch.randn(x.shape[::-1]).t()


def test_gradients_of_another_layout_of_a_compiled_module() -> None:
    """The graph is made anew from the parameters that it was called with."""
    net, plain = nn.Linear(4, 4), nn.Linear(4, 4)
    plain.load_state_dict(net.state_dict())
    compiled = torch.compile(net, backend=reprise.backend)
    for count in range(2 * CALLS):
        x = torch.randn(4, 4)
        result, expected = compiled(x), plain(x)
        gradient = a_gradient(count, result)
        result.backward(gradient)
        expected.backward(gradient)
        for a, b in zip(net.parameters(), plain.parameters(), strict=True):
            assert_same_bits(a.grad, b.grad)


def test_a_recording_ends_where_its_owner_leaves() -> None:
    """By an error, by an exit, and where a generator that holds it goes."""

    def fails(x: torch.Tensor) -> torch.Tensor:
        raise kind("told")

    for kind in (ValueError, KeyboardInterrupt, SystemExit, GeneratorExit):
        with pytest.raises(kind, match="told"):
            reprise.region(fails)(torch.ones(3))
        assert a_region_is_replayed()

    variants: Any = reprise.region(lambda x: x + 1)
    variants(torch.ones(3))
    (structure,) = variants._structures.values()

    def held() -> Generator[bool]:
        with OpenRecording(structure.handle) as opened:
            yield opened.begin([], [], [], 0)

    generator = held()
    assert next(generator)
    assert not a_region_is_replayed(), "somebody else records"
    del generator
    assert a_region_is_replayed()
    # And where the block was never entered.
    opened = OpenRecording(structure.handle)
    assert opened.begin([], [], [], 0)
    del opened
    assert a_region_is_replayed()


def test_a_recording_is_not_ended_by_others() -> None:
    variants: Any = reprise.region(lambda x: x + 1)
    variants(torch.ones(3))
    (structure,) = variants._structures.values()
    with OpenRecording(structure.handle) as opened:
        assert opened.begin([], [], [], 0)
        with OpenRecording(structure.handle) as other:
            assert not other.begin([], [], [], 0)
        assert not a_region_is_replayed()
    assert a_region_is_replayed()


def a_region_is_replayed() -> bool:
    fast: Any = reprise.region(lambda x: x * 3)
    for _ in range(CALLS):
        assert_same_bits(fast(torch.ones(3)), torch.full((3,), 3.0))
    replayed: int = fast.explain().replayed
    return replayed > 0
