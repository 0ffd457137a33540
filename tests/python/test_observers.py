"""Memory that the program uses without an op: seen, and the program sees nothing of it."""

from __future__ import annotations

import ctypes
import os
import pathlib
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import numpy
import pytest
import reprise
import skips
import torch
from hazards import LATE, PASSES, WIDTH, Case, Point, check_case, same_as_eager
from torch.utils import dlpack

PACKAGE_ROOT = pathlib.Path(reprise.__file__).resolve().parents[1]
TIMEOUT_S = 540.0  # compilers are slow beside other tests

needs_a_compiler = pytest.mark.skipif(
    not skips.has_compiler(), reason=skips.NO_COMPILER
)
no_gpu = pytest.mark.skipif(skips.gpus() == 0, reason=skips.NO_GPU)


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


class _Address:
    """A float array that others see, at an address."""

    def __init__(self, address: int, count: int) -> None:
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (count,),
            "typestr": "<f4",
            "version": 3,
        }


def _write_at(address: int, values: torch.Tensor) -> None:
    """Other values at every second place, by whoever has an address."""
    array = numpy.asarray(_Address(address, values.numel()))
    array[::2] = array[::2] * 0.5 + 3


class _Capsule:
    """Whoever has a capsule of DLPack's can hand it on."""

    def __init__(self, capsule: Any) -> None:
        self._capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self._capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def _write_capsule(capsule: Any, h: torch.Tensor) -> None:
    _write_at(numpy.from_dlpack(_Capsule(capsule)).ctypes.data, h)


def _write_array(array: Any) -> None:
    array[..., 1] = array[..., 0] * 0.5 + 3


class _DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("dtype", ctypes.c_uint8 * 4),
        ("shape", ctypes.c_void_p),
        ("strides", ctypes.c_void_p),
        ("byte_offset", ctypes.c_uint64),
    )


def _exchanged_address(h: torch.Tensor, capsule: Any) -> int:
    """As DLPack's consumers in C get it, which call no Python."""
    table = _pointer(capsule, b"dlpack_exchange_api")
    entry = ctypes.c_void_p.from_address(table + 5 * 8).value
    look = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(entry)
    found = _DLTensor()
    assert look(h, ctypes.addressof(found)) == 0
    return found.data


def _pointer(capsule: Any, name: bytes) -> int:
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = (ctypes.py_object, ctypes.c_char_p)
    return get(capsule, name)


_ONES = torch.ones(WIDTH, WIDTH)

_WAYS: dict[str, Callable[[torch.Tensor], object]] = {
    "data_ptr": lambda h: _write_at(h.data_ptr(), h),
    "an unbound data_ptr": lambda h: _write_at(torch.Tensor.data_ptr(h), h),
    "the base's data_ptr": lambda h: _write_at(torch._C.TensorBase.data_ptr(h), h),
    "_data_address": lambda h: _write_at(torch._C._data_address(h), h),
    "numpy": lambda h: _write_array(h.numpy()),
    "numpy by force": lambda h: _write_array(h.numpy(force=True)),
    "asarray": lambda h: _write_array(numpy.asarray(h)),
    "__array__": lambda h: _write_array(h.__array__()),
    "numpy's from_dlpack": lambda h: _write_array(numpy.from_dlpack(h)),
    "__dlpack__": lambda h: _write_capsule(h.__dlpack__(), h),
    "__dlpack__ 1.0": lambda h: _write_capsule(h.__dlpack__(max_version=(1, 0)), h),
    "to_dlpack": lambda h: _write_capsule(dlpack.to_dlpack(h), h),
    "torch.to_dlpack": lambda h: _write_capsule(torch.to_dlpack(h), h),
    "_to_dlpack_versioned": lambda h: _write_capsule(
        torch._C._to_dlpack_versioned(h), h
    ),
    "DLPack's exchange": lambda h: _write_at(
        _exchanged_address(h, type(h).__dlpack_c_exchange_api__), h
    ),
    "a storage's data_ptr": lambda h: _write_at(h.untyped_storage().data_ptr(), h),
    "a storage's item": lambda h: h.untyped_storage().__setitem__(2, 1),
    "a storage's slice": lambda h: h.untyped_storage().__setitem__(slice(2, 4), 1),
    "a storage's fill_": lambda h: h.untyped_storage().fill_(1),
    "a storage's copy_": lambda h: h.untyped_storage().copy_(_ONES.untyped_storage()),
    "a typed storage's item": lambda h: h.storage().__setitem__(3, 7.0),
    "a typed storage's fill_": lambda h: h.storage().fill_(2.0),
    "a typed storage's data_ptr": lambda h: _write_at(h.storage().data_ptr(), h),
    "_typed_storage": lambda h: _write_at(h._typed_storage()._data_ptr(), h),
    "apply_": lambda h: h.apply_(lambda value: value * 0.5 + 3),
    "map_": lambda h: h.map_(_ONES, lambda a, b: a * 0.5 + b),
    "map2_": lambda h: h.map2_(_ONES, _ONES, lambda a, b, c: a * 0.5 + b + c),
}

# Not every version of torch has them.
if hasattr(torch.Tensor, "const_data_ptr"):
    _WAYS["const_data_ptr"] = lambda h: _write_at(h.const_data_ptr(), h)
if hasattr(torch._C, "_const_dlpack_exchange_api"):
    _WAYS["DLPack's exchange for readers"] = lambda h: _write_at(
        _exchanged_address(h, torch._C._const_dlpack_exchange_api()), h
    )


_FROM_LATE_ON = Case("late", lambda number: number >= LATE and number % 3 < 2, 4)


@pytest.mark.filterwarnings("ignore:TypedStorage is deprecated")
@pytest.mark.parametrize("way", _WAYS)
def test_writing_in_the_middle_of_a_pass(way: str) -> None:
    """No op tells of it: those that follow are the same as in other passes."""

    def write(point: Point) -> None:
        assert point.h.is_contiguous()
        _WAYS[way](point.h)

    check_case("cpu", write, _FROM_LATE_ON)


_STORAGES_WAYS: dict[str, Callable[[torch.UntypedStorage], object]] = {
    "data_ptr": lambda storage: ctypes.memset(storage.data_ptr(), 1, 64),
    "item": lambda storage: storage.__setitem__(3, 64),
    "fill_": lambda storage: storage.fill_(1),
    "copy_": lambda storage: storage.copy_(torch.ones(64).untyped_storage()),
    "typed": lambda storage: torch.TypedStorage(
        wrap_storage=storage, dtype=torch.float32, _internal=True
    )._setitem(5, 3.0),
    "_byteswap": lambda storage: storage._byteswap(4),
}


@pytest.mark.parametrize("way", _STORAGES_WAYS)
def test_writing_by_a_storage_kept_from_before(way: str) -> None:
    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        w = torch.randn(8, 8)
        storage = w.untyped_storage()
        kept = []
        for number in range(PASSES):
            h = torch.randn(8, 8)
            for _ in range(4):
                h = (h + 0.5).relu_()
            if number >= LATE and number % 2:
                _STORAGES_WAYS[way](storage)
            kept.append(torch.tanh(h @ w))
            wait()
        return kept

    same_as_eager("cpu", run)


_UNDISTURBED = """
    import inspect, pickle, warnings
    warnings.simplefilter("ignore")
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    import reprise

    methods = (
        [(torch.Tensor, name) for name in (
            "numpy", "tolist", "data_ptr", "untyped_storage", "__dlpack__", "apply_",
            "__array__", "storage", "share_memory_", "__reduce_ex__")]
        + [(torch.UntypedStorage, name) for name in ("data_ptr", "resize_", "fill_")]
        + [(torch.cuda.Stream, "query"), (torch.cuda.Event, "synchronize")]
        + [(torch._C, "_to_dlpack"), (torch._C, "_cuda_emptyCache")]
    )
    found_before = [getattr(owner, name) for owner, name in methods]
    mine = {torch.Tensor.numpy: lambda self: "mine"}  # made before Reprise is enabled
    seen = []

    class Log(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(["subclass", str(func)])
            if func in mine:
                return mine[func](*args)
            return super().__torch_function__(func, types, args, kwargs or {})

    class FunctionMode(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(["function mode", str(func)])
            return func(*args, **(kwargs or {}))

    class DispatchMode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(["dispatch mode", str(func)])
            return func(*args, **(kwargs or {}))

    def signature(function):
        try:
            return str(inspect.signature(function))
        except ValueError as error:
            return str(error)

    def traced(x):
        y = x * 2
        y.data_ptr
        values = y.sum(0)
        return values, y.untyped_storage(), y.numpy()

    def breaks(function):
        torch._dynamo.reset()
        said = torch._dynamo.explain(function)(torch.ones(3))
        return [said.graph_count, said.graph_break_count, said.op_count]

    @torch.jit.script
    def scripted(x):
        values: list[float] = x.tolist()
        return x * values[0]

    def use(x):
        torch.ones(3) * 2  # something is open
        results = [x.numpy(), x.tolist(), x.data_ptr() != 0]
        x.untyped_storage(), x.__dlpack__(), torch.utils.dlpack.to_dlpack(x)
        return [str(type(result)) for result in results]

    def facts():
        seen.clear()
        with torch.no_grad():
            used = [use(torch.ones(4)), use(torch.ones(4).as_subclass(Log))]
            with FunctionMode():
                used.append(use(torch.ones(4)))
            with DispatchMode():
                used.append(use(torch.ones(4)))
        overrides = torch.overrides
        return {
            "used": used,
            "seen": list(seen),
            "overridable": torch.Tensor.numpy in overrides.get_testing_overrides(),
            "is a method": [
                overrides.is_tensor_method_or_property(found) for found in found_before],
            "names": [overrides.resolve_name(found) for found in found_before],
            "types": [str(type(getattr(*method))) for method in methods],
            "members": [sorted(vars(owner)) for owner, _ in methods[:-2]],
            "signatures": [signature(getattr(*method)) for method in methods],
            "pickled": [pickle.dumps(found).hex() for found in found_before],
            "breaks": [breaks(traced), breaks(lambda x: (x + 1).tolist())],
            "script": scripted(torch.ones(3)).tolist(),
            "module": [torch.Tensor.numpy.__module__ if hasattr(
                torch.Tensor.numpy, "__module__") else None,
                torch.Tensor.numpy.__doc__],
        }

    without = facts()
    with reprise.session("cpu", policy="always") as session:
        within = facts()
    assert all(
        getattr(*method) is found
        for method, found in zip(methods, found_before, strict=True))
    for key in without:
        assert within[key] == without[key], (key, without[key], within[key])
    assert "<class 'str'>" in within["used"][1]
    assert session.stats().ops > 0
"""


def _run(folder: pathlib.Path, program: str, *arguments: str) -> None:
    """A process of its own, in which nothing was enabled or imported before."""
    path = folder / "program.py"
    path.write_text(textwrap.dedent(program))
    result = subprocess.run(
        [sys.executable, str(path), *arguments],
        env={**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_method_that_the_program_has_replaced() -> None:
    """By a function of Python's that calls the one of C, kept from before."""
    program = """
        import torch
        kept = torch._C.ScriptFunction.__call__
        torch._C.ScriptFunction.__call__ = lambda self, *args: kept(self, *args)
        import reprise
        double = torch.jit.CompilationUnit("def double(x):\\n  return x * 2 + x\\n")
        fast = reprise.region(lambda x: double.double(x) - 1)
        for _ in range(6):
            fast(torch.ones(3))
        assert fast.explain().replayed == 0
        assert "launches kernels of its own" in str(fast.explain()), fast.explain()
        """
    program = textwrap.dedent(program)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE_ROOT)}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_the_program_sees_nothing_of_it(tmp_path: pathlib.Path) -> None:
    """The same objects, calls, names and graphs as before the first `enable`."""
    _run(tmp_path, _UNDISTURBED)


_PASSES = """
    import sys, warnings
    warnings.simplefilter("ignore")
    import torch, reprise

    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    DEVICE = sys.argv[1]

    def passes(update, late, wait):
        torch.manual_seed(0)
        x, w = torch.randn(2, 64, 64, device=DEVICE).unbind()
        buffer = torch.zeros(64, 64, device=DEVICE)
        kept = []
        for number in range(40):
            h = x * 1.5
            h = h + 1
            if number >= late:
                update(buffer, h, w)
            kept.append((h + buffer).clone())
            wait()
        return kept

    def check(update):
        for late in (0, 30):
            with reprise.session(DEVICE, policy="always") as session:
                session.reset()
                found = passes(update, late, session.wait)
                assert session.stats().replays > 0, str(session.explain())
            expected = passes(update, late, lambda: None)
            wrong = [
                number for number, (a, b) in enumerate(zip(found, expected, strict=True))
                if not torch.equal(a.view(torch.int32), b.view(torch.int32))
            ]
            assert not wrong, (late, wrong, str(session.explain()))
"""

# Write an external in code of their own; the second one calls ops between.
_COMPILED = """
    @torch.compile(backend="inductor")
    def alone(buffer, h, w):
        buffer.mul_(0.5).add_(w)

    @torch.compile(backend="inductor")
    def around_an_op(buffer, h, w):
        buffer.mul_(0.5)
        buffer.add_((buffer + 1) @ w)

    check(alone)
    check(around_an_op)
"""


@needs_a_compiler
@pytest.mark.parametrize("imported", ["before", "afterwards"])
def test_code_of_inductors(tmp_path: pathlib.Path, device: str, imported: str) -> None:
    """Nothing is followed across it, whether it is known when Reprise is enabled."""
    known = "import torch._inductor.output_code" if imported == "before" else ""
    program = map(textwrap.dedent, (_PASSES, known, _COMPILED))
    _run(tmp_path, "\n".join(program), device)


_SOURCE = """
    #include <torch/csrc/utils/pybind.h>

    PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
      module.def("put", [](at::Tensor t) { t.data_ptr<float>()[1] += 3.5f; });
    }
"""

_EXTENSION = """
    import importlib.util, shutil
    from torch.utils import cpp_extension

    folder = sys.argv[2]
    extension = cpp_extension.load(
        "extension", [folder + "/extension.cc"], build_directory=folder)

    def update(buffer, h, w):
        extension.put(h)

    check(update)  # known when Reprise is enabled

    path = shutil.copy(extension.__file__, folder + "/extension_again.so")
    spec = importlib.util.spec_from_file_location("extension", path)
    extension = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(extension)
    check(update)
"""


@needs_a_compiler
def test_functions_of_extensions(tmp_path: pathlib.Path) -> None:
    """What pybind11 hands on is a tensor that C++ writes without asking anybody."""
    (tmp_path / "extension.cc").write_text(_SOURCE)
    program = textwrap.dedent(_PASSES) + textwrap.dedent(_EXTENSION)
    _run(tmp_path, program, "cpu", str(tmp_path))


_LATE_SOURCE = """
    #include <ATen/ATen.h>
    #include <torch/library.h>
    void put(const at::Tensor& t) { t.data_ptr<float>()[1] += 3.5f; }
    void put_boxed(const c10::OperatorHandle&, torch::jit::Stack* stack) {
      put(torch::jit::pop(*stack).toTensor());
    }
    TORCH_LIBRARY(reprise_late, library) {
      library.def("put(Tensor(a!) t) -> ()");
      library.impl("put", c10::DispatchKey::CPU, TORCH_FN(put));
      library.def("put_boxed(Tensor(a!) t) -> ()");
      library.impl("put_boxed", c10::DispatchKey::CPU,
                   torch::CppFunction::makeFromBoxedFunction<&put_boxed>());
    }
"""

_LATE = """
    from torch.utils import cpp_extension

    check(lambda buffer, h, w: h.add_(1))  # Reprise is enabled, and has its hooks
    folder = sys.argv[2]
    cpp_extension.load("late", [folder + "/late.cc"], build_directory=folder,
                       is_python_module=False)
    check(lambda buffer, h, w: torch.ops.reprise_late.put(h))
    check(lambda buffer, h, w: torch.ops.reprise_late.put_boxed(h))
"""


@needs_a_compiler
def test_operators_that_are_registered_late(tmp_path: pathlib.Path) -> None:
    """They are hooked when the next op comes."""
    (tmp_path / "late.cc").write_text(_LATE_SOURCE)
    program = textwrap.dedent(_PASSES) + textwrap.dedent(_LATE)
    _run(tmp_path, program, "cpu", str(tmp_path))


# --- On a GPU -----------------------------------------------------------------

_ADDRESSES: dict[str, Callable[[torch.Tensor], int]] = {
    "data_ptr": lambda h: h.data_ptr(),
    "_data_address": lambda h: torch._C._data_address(h),
    "a storage's data_ptr": lambda h: h.untyped_storage().data_ptr(),
    "__cuda_array_interface__": lambda h: h.__cuda_array_interface__["data"][0],
    "__dlpack__": lambda h: _dlpack_address(h.__dlpack__()),
    "to_dlpack": lambda h: _dlpack_address(dlpack.to_dlpack(h)),
    "DLPack's exchange": lambda h: _exchanged_address(
        h, type(h).__dlpack_c_exchange_api__
    ),
}


def _dlpack_address(capsule: Any) -> int:
    return _DLTensor.from_address(_pointer(capsule, b"dltensor")).data


@pytest.mark.gpu
@no_gpu
@pytest.mark.parametrize("way", _ADDRESSES)
def test_writing_at_an_address_of_the_device(way: str) -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    half = ctypes.c_size_t(4 * WIDTH * WIDTH // 2)

    def write(point: Point) -> None:
        address = ctypes.c_uint64(_ADDRESSES[way](point.h))
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        # Bytes of 0x3e: 0.185791.
        assert driver.cuMemsetD8Async(address, 0x3E, half, stream) == 0

    check_case("cuda", write, _FROM_LATE_ON)


@pytest.mark.gpu
@no_gpu
def test_a_kernel_of_jiterators() -> None:
    twice = torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T twice(T a) { return a + a; }"
    )

    def launch(point: Point) -> torch.Tensor:
        return twice(point.h)

    check_case("cuda", launch, _FROM_LATE_ON)


_LEARNING: dict[str, Callable[[torch.cuda.Stream, torch.cuda.Event], object]] = {
    "Stream.query": lambda side, done: _until(side.query),
    "Stream.synchronize": lambda side, done: side.synchronize(),
    "Event.query": lambda side, done: _until(done.query),
    "Event.synchronize": lambda side, done: done.synchronize(),
}


def _until(done: Callable[[], bool]) -> None:
    while not done():
        pass


@pytest.mark.gpu
@no_gpu
@pytest.mark.parametrize("way", _LEARNING)
def test_the_host_learns_that_another_stream_is_done(way: str) -> None:
    """What comes next is ordered behind that stream, which no stream is told."""

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        side, done = torch.cuda.Stream(), torch.cuda.Event()
        w = torch.randn(WIDTH, WIDTH, device="cuda")
        values = torch.randn(PASSES, WIDTH, WIDTH, device="cuda").unbind()
        kept = []
        for number, value in enumerate(values):
            h = value * 2
            for _ in range(6):
                h = (h + 0.5).relu()
            if number >= LATE:
                with torch.cuda.stream(side):
                    torch.cuda._sleep(100_000)
                    w.copy_(value)
                    done.record()
                _LEARNING[way](side, done)
            for _ in range(3):
                h = torch.tanh(h @ w)
            kept.append(h)
            torch.cuda.synchronize()  # before the side stream writes the weight again
            wait()
        return kept

    same_as_eager("cuda", run)
