"""Tensors copied and compared by their memory, storages and all."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from typing import Any

import torch

LARGEST_STORAGE_BYTES = 8 << 20


_NUMBERS = (bool, int, float, complex, str, torch.dtype)


class Unsupported(Exception):
    """A tensor that is not strided and plain: no trace has one."""


def is_plain(tensor: torch.Tensor) -> bool:
    """An ordinary dense tensor with memory."""
    return (
        type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and tensor.layout == torch.strided
        and tensor.device.type in ("cpu", "cuda")
        and not tensor.is_quantized
        and not tensor.is_nested
        and not tensor._is_zerotensor()
        and not torch._C._functorch.is_functorch_wrapped_tensor(tensor)
    )


def walk(value: Any) -> Iterator[torch.Tensor]:
    """The tensors in a nest of lists, tuples and dicts, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from walk(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from walk(item)


def replaced(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The nest with every tensor changed, and generators copied."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(item, change) for item in value)
    if isinstance(value, dict):
        return {name: replaced(item, change) for name, item in value.items()}
    if isinstance(value, torch.Generator):
        return value.clone_state()
    return value


def overlaps_itself(tensor: torch.Tensor) -> bool:
    """Two of its elements are one."""
    if not is_plain(tensor) or tensor.is_contiguous():
        return False
    places = torch.zeros(1, dtype=torch.int64)
    for size, stride in zip(tensor.shape, tensor.stride(), strict=True):
        places = (places[:, None] + torch.arange(size) * stride).flatten()
    return places.unique().numel() < places.numel()


def storage_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor's whole storage, as bytes."""
    empty = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return empty.set_(tensor.untyped_storage())


class Copier:
    """Copies tensors so that those which share memory still do.

    `around`: bytes that the copies' storages have more at both ends, a multiple of every
    element's.
    """

    def __init__(self, around: int = 0) -> None:
        self._storages: dict[int, torch.Tensor] = {}
        self._around = around

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.detach()
        if not is_plain(tensor):
            raise Unsupported
        storage = tensor.untyped_storage()
        if storage.nbytes() > LARGEST_STORAGE_BYTES:
            raise Unsupported
        key = storage._cdata
        if key not in self._storages:
            whole = storage_bytes(tensor)
            ends = whole.new_zeros(self._around)
            self._storages[key] = torch.cat((ends, whole, ends))
        return view_of(self._storages[key], tensor, self._around)


def view_of(memory: torch.Tensor, like: torch.Tensor, before: int = 0) -> torch.Tensor:
    """A tensor that lies in `memory`, so many bytes later, as `like` does in its own."""
    empty = torch.empty(0, dtype=like.dtype, device=like.device)
    offset = like.storage_offset() + before // like.element_size()
    made = empty.set_(memory.untyped_storage(), offset, like.size(), like.stride())
    if like.is_conj():
        made = torch._conj(made)
    if like.is_neg():
        made = torch._neg_view(made)
    return made


def content(tensor: torch.Tensor) -> bytes:
    """The bytes of the elements, in their logical order."""
    plain = tensor.detach().resolve_conj().resolve_neg().cpu().contiguous()
    count = plain.numel() * plain.element_size()
    return ctypes.string_at(plain.data_ptr(), count) if count else b""


def form(value: Any) -> Any:
    """What tells two calls apart but for the data; hashable."""
    if isinstance(value, torch.Tensor):
        return (
            str(value.dtype),
            value.device.type,
            tuple(value.shape),
            tuple(value.stride()) if value.layout == torch.strided else None,
            str(value.layout),
            value.is_conj(),
            value.is_neg(),
        )
    if isinstance(value, (list, tuple)):
        return tuple(form(item) for item in value)
    if isinstance(value, dict):
        return tuple((name, form(item)) for name, item in sorted(value.items()))
    return repr(value)


def size(value: Any) -> int:
    """How many elements the tensors of a nest have."""
    return sum(tensor.numel() for tensor in walk(value))


def look(value: Any, bits: bool = True) -> list[Any]:
    """All that can be seen of a nest: kinds, layouts, and bits if wanted."""
    if isinstance(value, torch.Tensor):
        if not is_plain(value):
            return ["foreign", str(value.layout), tuple(value.shape)]
        return [
            str(value.dtype),
            str(value.device),
            tuple(value.shape),
            tuple(value.stride()),
            value.is_conj(),
            value.is_neg(),
            content(value) if bits else None,
        ]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *(look(item, bits) for item in value)]
    if isinstance(value, dict):
        return [(name, look(item, bits)) for name, item in value.items()]
    return [repr(value) if isinstance(value, _NUMBERS) else type(value).__name__]


def sharing(value: Any) -> list[int]:
    """Who shares memory in a nest: a number for every tensor, equal for one storage."""
    numbers: dict[int, int] = {}
    return [
        numbers.setdefault(tensor.untyped_storage()._cdata, len(numbers))
        for tensor in walk(value)
        if is_plain(tensor)
    ]
