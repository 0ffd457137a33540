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
import functools
import importlib.abc
import importlib.machinery
import sys
import sysconfig
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from reprise._enums import Use
from reprise._extensions_of_torch import is_extension_of_torch, modules
from reprise._functions_of_c import (
    PYTHONS_WORDS_BYTES,
    def_at,
    def_of,
    plain_getters,
)
from reprise._observed import ASKS, named, observed, owners

# Of methods of extensions: not those that only compare, print and count.
_EXTENSIONS_METHODS = "__(init|call)__|(?!__|_pybind11_).*"

# Of Python's methodobject.h.
_METH_VARARGS, _METH_FASTCALL = 0x1, 0x80

_INDUCTOR = "torch._inductor.output_code"  # the module of what Inductor compiles


class _Observer:
    """Lets functions of C interrupt before they do what they do."""

    def __init__(self, observer_of: Callable[[int, int], int]) -> None:
        self._observer_of = observer_of
        self._observers: dict[tuple[int, Use], int] = {}  # by what they observe

    def of(self, function: int, use: Use) -> int:
        """The address of a function's observer; of its own where there are too many."""
        if function in self._observers.values():
            return function
        if (function, use) not in self._observers:
            self._observers[function, use] = self._observer_of(function, use)
        return self._observers[function, use] or function

    def observe(self, attribute: Any, use: Use) -> None:
        """Observe what a class or a module has, if that is a function of C."""
        at = def_at(attribute)
        is_got = type(attribute) is types.GetSetDescriptorType
        if at is None or (is_got and use not in ASKS):
            return
        pointer = ctypes.c_void_p.from_address(at)
        before = def_of(attribute, pointer)
        if use is Use.EXPORTS:
            use = export_by(before.flags)
        after = type(before).from_buffer_copy(before)
        after.function = self.of(before.function, use)
        # Python's object refers to it, beyond the end of this module.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(after))
        pointer.value = ctypes.addressof(after)

    def observe_all(self, owner: Any, names: str, use: Use) -> None:
        """Observe what a class or a module itself has of those names."""
        for _, attribute in named(owner, names):
            self.observe(attribute, use)


def export_by(flags: int) -> Use:
    """How a function that gives an address away is given its arguments.

    Where that is another way, nobody looks at these.
    """
    if flags & _METH_FASTCALL:
        return Use.EXPORTS_FAST
    return Use.EXPORTS if flags & _METH_VARARGS else Use.MEMORY


def _observe_replaced(
    owner: Any, names: str, enter: Callable[[], None], leave: Callable[[], None]
) -> None:
    """What the program has put in the place of a function of C, which it may call."""
    for name, attribute in named(owner, names):
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
    generator = torch.default_generator
    return bool(
        _word_behind(tensor) == tensor._cdata
        and _word_behind(storage) == storage._cdata
        and _word_behind(generator) == generator._cdata
        and _name_in_def(torch._C.TensorBase.numpy) == b"numpy"
        and _name_in_def(torch._C.TensorBase.grad_fn) == b"grad_fn"
    )


def _name_in_def(attribute: Any) -> Any:
    pointer = ctypes.c_void_p.from_address(def_at(attribute) or 0)
    return def_of(attribute, pointer).name


def _word_behind(held: Any) -> int | None:
    return ctypes.c_void_p.from_address(id(held) + PYTHONS_WORDS_BYTES).value


def wrap(plain_functions: Iterable[int]) -> None:
    """Interrupt before each use of the watched device from now on. Once a process.

    Args:
        plain_functions: addresses of functions of C: one that takes the address of a
            function and a `Use`, and returns that of a function that interrupts and
            calls it; one that interrupts; two to be called around what launches
            without ops.
    """
    observer_of, *others = plain_functions
    as_observer = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
    observer = _Observer(as_observer(observer_of))
    plain_getters()
    # These give Python's lock up, which whoever is inside a session may wait for.
    interrupt, enter, leave = map(ctypes.CFUNCTYPE(None), others)
    for use, path, names in observed():
        for owner in owners(path):
            observer.observe_all(owner, names, use)
            _observe_replaced(owner, names, enter, leave)
    # A library that is loaded may register kernels.
    for function in (_ctypes.dlopen, _imp.create_dynamic):
        observer.observe(function, Use.LIBRARIES)
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
            setattr(table, name, observer.of(getattr(table, name), Use.TENSORS_ADDRESS))


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
        if not path or not is_extension_of_torch(path):
            return
        for attribute in list(vars(module).values()):
            observer.observe(attribute, Use.LAUNCHES)
            if isinstance(attribute, type) and attribute.__module__ == module.__name__:
                observer.observe_all(attribute, _EXTENSIONS_METHODS, Use.LAUNCHES)

    cls = importlib.machinery.ExtensionFileLoader
    for module in modules():
        if isinstance(vars(module).get("__loader__"), cls):
            observe(module)
    execute = cls.exec_module

    @functools.wraps(execute)
    def exec_module(self: Any, module: types.ModuleType) -> None:
        execute(self, module)
        observe(module)

    cls.exec_module = exec_module  # type: ignore[method-assign]
