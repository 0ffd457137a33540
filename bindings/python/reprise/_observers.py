"""Uses of a tensor's memory that are no operations, so that no hook sees them.

Work that runs ahead of the program may have overwritten in place what the program is
about to read, or have read what the program is about to write. It must be taken back
first.

The program must not notice that it is observed. If a method in torch's classes is
replaced, tables of methods (`torch.overrides`, a subclass's own) have another key, and
Dynamo and `inspect` see another function. So the objects stay. Only the C function that
they call changes: the new one interrupts, and then calls the old one.
"""

from __future__ import annotations

import _ctypes
import _imp
import contextlib
import ctypes
import enum
import functools
import gc
import importlib.abc
import importlib.machinery
import mmap
import os
import re
import struct
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from reprise._functions_of_c import (
    PYTHONS_WORDS_BYTES,
    def_at,
    def_of,
    plain_getters,
)


class _Use(enum.IntEnum):
    """What a function uses, as bindings/torch/observe/python_observers.cc has it."""

    TENSOR = 0
    STORAGE = 1
    MEMORY = 2
    STREAMS = 3
    LAUNCHES = 4
    GRAPH = 5
    SEEDS = 6
    SCRIPTS = 7
    WAITS = 8
    KERNELS = 9
    SAVED_TENSORS = 10
    NO_HOOKS = 11
    LIBRARIES = 12
    MODES = 13
    PLANS = 14
    OFFSET = 15
    ORIGIN = 16
    HISTORY = 17


# By dotted name in `torch._C`, with the names of attributes: both as regular expressions,
# with spaces between. What else torch's Python offers (`__array__`, `storage`,
# `__cuda_array_interface__`, `__dlpack__`, `share_memory_`, pickling) calls these; Triton's
# launcher calls `data_ptr`. What a version of torch lacks is passed over: `lacking` says
# what, and a test knows it of each version.
_OBSERVED: tuple[tuple[_Use, str, str], ...] = (
    (
        _Use.TENSOR,
        "TensorBase",
        "data_ptr const_data_ptr numpy tolist untyped_storage apply_ map_ map2_",
    ),
    # What a tensor's form does not tell: a recorded call may depend on it.
    (_Use.OFFSET, "TensorBase", "storage_offset"),
    (_Use.ORIGIN, "TensorBase", "_base _is_view _version"),
    (_Use.HISTORY, "TensorBase", "_?grad_fn output_nr"),
    (
        _Use.STORAGE,
        "StorageBase",
        "data_ptr resize_ _resize_with_addr_ _swap_data_ptr_ fill_ copy_ _byteswap "
        "_write_file _set_from_file _share_.*_",
    ),
    (
        _Use.SEEDS,
        "Generator",
        "manual_seed seed set_state set_offset graphsafe_set_state philox_state",
    ),
    (_Use.SAVED_TENSORS, "_autograd.SavedTensor", "register_hooks"),
    (_Use.NO_HOOKS, "_autograd.", "_saved_tensors_hooks_disable"),
    (_Use.MODES, "", "_push_on_torch_dispatch_stack _set_dispatch_mode"),
    (_Use.MEMORY, "", "_to_dlpack.* _(storage|data)_address _gds_(load|save)_storage"),
    (_Use.MEMORY, "", "_pickle_save _save_jit_module.* _save_mobile_module.*"),
    (_Use.MEMORY, "PyTorchFileWriter", "write_record"),
    # Who is told that something elsewhere is done has been ordered behind it. That a
    # wait for a stream or an event begins is told by torch's tracer (gpu_trace.h).
    (_Use.STREAMS, "_CudaStreamBase Stream", "query"),
    (_Use.STREAMS, "_CudaEventBase Event", "query elapsed_time"),
    (_Use.WAITS, "_CudaStreamBase _CudaEventBase Stream Event", "synchronize"),
    (_Use.WAITS, "", "_cuda_synchronize _accelerator_synchronizeDevice"),
    (_Use.MEMORY, "Future", "wait value done"),
    (
        _Use.MEMORY,
        "_distributed_c10d.Work",
        "wait is_completed is_success exception synchronize result "
        "block_current_stream",
    ),
    # What has run ahead may have to be rebuilt from memory that is free by then.
    (_Use.STREAMS, "", "_cuda_emptyCache _accelerator_emptyCache"),
    # A plan of cuFFT's holds its kernels, and memory that they read.
    (
        _Use.PLANS,
        "_VariableFunctionsClass",
        "_cufft_clear_plan_cache _cufft_set_plan_cache_max_size",
    ),
    # Code that was compiled elsewhere, and graphs of the program's own: they work on
    # what they are given and on what they were captured with.
    (_Use.GRAPH, "_CUDAGraph _acceleratorGraph", "replay"),
    (_Use.SCRIPTS, "ScriptFunction ScriptMethod", "__call__"),  # they may be fused
    (_Use.LAUNCHES, "", "_cuda_jiterator_compile_and_launch_kernel"),
    (_Use.LAUNCHES, "", "_nccl_(all_.*|broadcast|reduce|reduce_scatter)"),
    (_Use.LAUNCHES, "", "_broadcast _broadcast_coalesced _broadcast_out"),
    (_Use.LAUNCHES, "_StaticCudaLauncher", "_launch_kernel"),
    (_Use.LAUNCHES, "_aoti.AOTIModel.*", "(?!__).*"),
    (_Use.LAUNCHES, "_nativert.PyModelRunner", "__call__ (?!__).*"),
    (_Use.LAUNCHES, "_te.TensorExprKernel", "run fallback"),
    (_Use.LAUNCHES, "_te.CodeGen.*", "call.*"),
    (_Use.LAUNCHES, "StaticModule", "__call__ runAsync benchmark.*"),
    (_Use.KERNELS, "_DispatchModule", "(?!__|_pybind11_).*"),
    (_Use.KERNELS, "", "_set_warnAlways"),
    # Collectives that go round the dispatcher.
    (
        _Use.LAUNCHES,
        "_distributed_c10d.Backend",
        "_?all.* broadcast.* _?reduce.* gather.* scatter.* send.* recv.* barrier.* "
        "monitored.*",
    ),
    (_Use.LAUNCHES, "_distributed_c10d._SymmetricMemory", "(?!__).*"),
    (_Use.LAUNCHES, "_distributed_c10d.Window", "(?!__|_pybind11_).*"),
)

# What Python asks a tensor, which may be an attribute.
_ASKS = (_Use.OFFSET, _Use.ORIGIN, _Use.HISTORY)

# Of methods of extensions: not those that only compare, print and count.
_EXTENSIONS_METHODS = "__(init|call)__|(?!__|_pybind11_).*"

_INDUCTOR = "torch._inductor.output_code"  # the module of what Inductor compiles


class _Observer:
    """Lets functions of C interrupt before they do what they do."""

    def __init__(self, observer_of: Callable[[int, int], int]) -> None:
        self._observer_of = observer_of
        self._observers: dict[tuple[int, _Use], int] = {}  # by what they observe

    def of(self, function: int, use: _Use) -> int:
        """The address of a function's observer; of its own where there are too many."""
        if function in self._observers.values():
            return function
        if (function, use) not in self._observers:
            self._observers[function, use] = self._observer_of(function, use)
        return self._observers[function, use] or function

    def observe(self, attribute: Any, use: _Use) -> None:
        """Observe what a class or a module has, if that is a function of C."""
        at = def_at(attribute)
        is_got = type(attribute) is types.GetSetDescriptorType
        if at is None or (is_got and use not in _ASKS):
            return
        pointer = ctypes.c_void_p.from_address(at)
        before = def_of(attribute, pointer)
        after = type(before).from_buffer_copy(before)
        after.function = self.of(before.function, use)
        # Python's object refers to it, beyond the end of this module.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(after))
        pointer.value = ctypes.addressof(after)

    def observe_all(self, owner: Any, names: str, use: _Use) -> None:
        """Observe what a class or a module itself has of those names."""
        for _, attribute in _named(owner, names):
            self.observe(attribute, use)


def _named(owner: Any, names: str) -> list[tuple[str, Any]]:
    return [each for each in vars(owner).items() if re.fullmatch(names, each[0])]


def _observe_replaced(
    owner: Any, names: str, enter: Callable[[], None], leave: Callable[[], None]
) -> None:
    """What the program has put in the place of a function of C, which it may call."""
    for name, attribute in _named(owner, names):
        if type(attribute) is types.FunctionType:
            setattr(owner, name, _between(attribute, enter, leave))


def _between(
    function: Callable[..., Any], enter: Callable[[], None], leave: Callable[[], None]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        enter()
        try:
            return function(*args, **kwargs)
        finally:
            leave()

    return wrapper


def check_layout() -> None:
    """Raise RuntimeError unless Python and torch store things where we look for them."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise RuntimeError(
            "reprise does not support the free-threaded build of Python: use the "
            "ordinary one (python3.13, not python3.13t)"
        )
    if not _layout_is_known():
        raise RuntimeError(
            "reprise does not know how this Python lays out its methods "
            f"({sys.implementation.name} {sys.version.split()[0]}): use CPython"
        )


def _layout_is_known() -> bool:
    if sys.implementation.name != "cpython" or PYTHONS_WORDS_BYTES != 16:
        return False
    tensor = torch.empty(1)
    storage = torch._C.TensorBase.untyped_storage(tensor)
    return bool(
        _word_behind(tensor) == tensor._cdata
        and _word_behind(storage) == storage._cdata
        and _name_in_def(torch._C.TensorBase.numpy) == b"numpy"
        and _name_in_def(torch._C.TensorBase.grad_fn) == b"grad_fn"
    )


def _name_in_def(attribute: Any) -> Any:
    pointer = ctypes.c_void_p.from_address(def_at(attribute) or 0)
    return def_of(attribute, pointer).name


def _word_behind(held: Any) -> int | None:
    return ctypes.c_void_p.from_address(id(held) + PYTHONS_WORDS_BYTES).value


def _owners(path: str) -> Iterator[Any]:
    """Classes and modules of `torch._C`, the last of the dotted names being a pattern."""
    owner: Any = torch._C
    *modules, pattern = path.split(".", 1) if path else [""]
    for name in modules:
        owner = getattr(owner, name, None)
    if not pattern:
        yield owner
    elif owner is not None:
        for name, found in list(vars(owner).items()):
            if isinstance(found, type) and re.fullmatch(pattern, name):
                yield found


def _observed() -> Iterator[tuple[_Use, str, str]]:
    """Each use, with one pattern of owners and one of names."""
    for use, paths, names in _OBSERVED:
        for path in paths.split() or [""]:
            for name in names.split():
                yield use, path, name


def lacking() -> list[str]:
    """Return what is observed and missing in this torch, as owner and name."""
    return [
        f"{path or '.'} {names}"
        for _, path, names in _observed()
        if not any(
            def_at(attribute) is not None or type(attribute) is types.FunctionType
            for owner in _owners(path)
            for _, attribute in _named(owner, names)
        )
    ]


def wrap(plain_functions: Iterable[int]) -> None:
    """Interrupt before each use of the watched device from now on. Once a process.

    Args:
        plain_functions: addresses of functions of C: one that takes the address of a
            function and a `_Use`, and returns that of a function that interrupts and
            calls it; one that interrupts; two to be called around what launches
            without ops.
    """
    observer_of, *others = plain_functions
    as_observer = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    observer = _Observer(as_observer(observer_of))
    plain_getters()
    # These give Python's lock up, which whoever is inside a session may wait for.
    interrupt, enter, leave = map(ctypes.CFUNCTYPE(None), others)
    for use, path, names in _observed():
        for owner in _owners(path):
            observer.observe_all(owner, names, use)
            _observe_replaced(owner, names, enter, leave)
    # A library that is loaded may register kernels.
    for function in (_ctypes.dlopen, _imp.create_dynamic):
        observer.observe(function, _Use.LIBRARIES)
    _observe_exchange(observer)
    _observe_inductor(enter, leave)
    _observe_extensions(observer)

    # Torch cannot empty a pool while another one is open, as ours is in a recording.
    def before_end(self: Any) -> None:
        interrupt()

    torch.cuda.MemPool.__del__ = before_end


def pass_trace_on(activate: Callable[[], None]) -> None:
    """Let torch's own tracer of streams, if it is on, receive what we receive."""
    torch._C._activate_gpu_trace = activate


def _observe_exchange(observer: _Observer) -> None:
    """The functions that DLPack's consumers in C call with tensors, past Python."""
    as_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    as_pointer.restype = ctypes.c_void_p
    as_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    capsules = [torch.Tensor.__dlpack_c_exchange_api__]
    if get_const := getattr(torch._C, "_const_dlpack_exchange_api", None):
        capsules.append(get_const())  # for those that only read
    for capsule in capsules:
        table = _ExchangeApi.from_address(as_pointer(capsule, b"dlpack_exchange_api"))
        for name in ("managed_tensor_from_py_object", "dl_tensor_from_py_object"):
            setattr(table, name, observer.of(getattr(table, name), _Use.TENSOR))


class _ExchangeApi(ctypes.Structure):
    """`DLPackExchangeAPI`."""

    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("previous", ctypes.c_void_p),
        ("managed_tensor_allocator", ctypes.c_void_p),
        ("managed_tensor_from_py_object", ctypes.c_void_p),
        ("managed_tensor_to_py_object", ctypes.c_void_p),
        ("dl_tensor_from_py_object", ctypes.c_void_p),
        ("current_work_stream", ctypes.c_void_p),
    )


def _observe_inductor(enter: Callable[[], None], leave: Callable[[], None]) -> None:
    """What Inductor compiles launches past the hooks, between ops that it runs, too."""

    def wrap_calls(module: Any) -> None:
        cls = module.CompiledFxGraph
        cls.__call__ = _between(cls.__call__, enter, leave)

    if _INDUCTOR in sys.modules:
        wrap_calls(sys.modules[_INDUCTOR])
    else:  # importing it takes seconds
        sys.meta_path.insert(0, _Import(_INDUCTOR, wrap_calls))


class _Import(importlib.abc.MetaPathFinder):
    """Does something once a module has been imported; in Python's list until then."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(
        self,
        fullname: str,
        path: Any,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        """What another finder says, and None but for that module."""
        if fullname != self._name:
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self)
        specs = (
            finder.find_spec(fullname, path, target)
            for finder in others
            if hasattr(finder, "find_spec")
        )
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            execute = loader.exec_module

            def exec_module(module: types.ModuleType) -> None:
                execute(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self._then(module)

            loader.exec_module = exec_module
        return spec


def _observe_extensions(observer: _Observer) -> None:
    """Functions of extensions take tensors and look at their memory past Python."""

    def observe(module: Any) -> None:
        # Whatever a module is made of: its import is the program's, and goes on.
        with contextlib.suppress(Exception):
            observe_functions(module)

    def observe_functions(module: Any) -> None:
        path = getattr(module, "__file__", None)
        if not path or not _is_extension_of_torch(path):
            return
        for attribute in list(vars(module).values()):
            observer.observe(attribute, _Use.LAUNCHES)
            if isinstance(attribute, type) and attribute.__module__ == module.__name__:
                observer.observe_all(attribute, _EXTENSIONS_METHODS, _Use.LAUNCHES)

    cls = importlib.machinery.ExtensionFileLoader
    for module in _modules():
        if isinstance(vars(module).get("__loader__"), cls):
            observe(module)
    execute = cls.exec_module

    @functools.wraps(execute)
    def exec_module(self: Any, module: types.ModuleType) -> None:
        execute(self, module)
        observe(module)

    cls.exec_module = exec_module  # type: ignore[method-assign]


def _modules() -> Iterator[types.ModuleType]:
    """All that are loaded but lazy ones, some more than once."""
    found: list[Any] = list(sys.modules.values())
    compiler = sys.modules.get("torch.utils.cpp_extension")
    if compiler is not None and compiler.JIT_EXTENSION_VERSIONER.entries:
        found += gc.get_objects()  # what torch compiles is in no list of Python's
    for module in found:
        if type(module) is types.ModuleType:
            yield module


def _is_extension_of_torch(path: str) -> bool:
    """Whether a library that is no part of torch names one of torch's as its own."""
    torchs = [os.path.dirname(torch.__file__)]
    if inductor := sys.modules.get("torch._inductor.runtime.cache_dir_utils"):
        torchs.append(inductor.cache_dir())  # kernels without number
    path = os.path.realpath(path)
    if any(path.startswith(os.path.realpath(folder) + os.sep) for folder in torchs):
        return False
    try:
        return any(name.startswith((b"libtorch", b"libc10")) for name in _needed(path))
    except (OSError, ValueError, struct.error):
        return False  # no library of this machine


_LOAD, _DYNAMIC = 1, 2  # of segments: PT_LOAD, PT_DYNAMIC
_NEEDED, _STRINGS = 1, 5  # of entries of the dynamic segment: DT_NEEDED, DT_STRTAB


def _needed(path: str) -> list[bytes]:
    """The libraries that a 64-bit ELF library names as its own."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data,
    ):
        if data[:5] != b"\x7fELF\x02":
            return []
        (headers,) = struct.unpack_from("<Q", data, 32)
        size, count = struct.unpack_from("<HH", data, 54)
        segments = [
            struct.unpack_from("<IIQQQQ", data, headers + index * size)
            for index in range(count)
        ]
        entries = [
            entry
            for kind, _, offset, _, _, length in segments
            if kind == _DYNAMIC
            for entry in struct.iter_unpack("<qQ", data[offset : offset + length])
        ]
        strings = [
            value - virtual + offset
            for tag, value in entries
            if tag == _STRINGS
            for kind, _, offset, virtual, _, length in segments
            if kind == _LOAD and virtual <= value < virtual + length
        ]
        return [
            data[strings[0] + value : data.find(b"\0", strings[0] + value)]
            for tag, value in entries
            if tag == _NEEDED and strings
        ]
