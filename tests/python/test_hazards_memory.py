"""Memory that the program reaches, moves and gives back behind the operations."""

from __future__ import annotations

import copy
import ctypes
import io
import pickle
from collections.abc import Callable, Iterator
from typing import Any

import hazards
import numpy
import pytest
import reprise
import torch
from hazards import Case, Hazard, Point, cases, check_case, same_as_eager
from watching import assert_same_bits, rest


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with hazards.quiet():
        yield


def _through(h: torch.Tensor, write: Callable[[torch.Tensor], object]) -> torch.Tensor:
    """The value written through another tensor over its memory."""
    write(h)
    return h.clone()


def _write_by_dlpack(point: Point) -> Any:
    return _through(point.h, lambda h: torch.from_dlpack(h).mul_(1.5))


def _keep_dlpack(point: Point) -> Any:
    """Another storage over the memory stays alive into later passes."""
    before = point.memo.get("alias")
    point.memo["alias"] = torch.from_dlpack(point.h)
    return [point.h + 1] if before is None else [before * 2, point.h + 1]


def _write_weight_by_dlpack(point: Point) -> Any:
    return _through(point.w, lambda w: torch.from_dlpack(w).mul_(1.125))


def _resize_value(point: Point) -> Any:
    point.h.resize_(hazards.WIDTH * 2, hazards.WIDTH)[hazards.WIDTH :].zero_()
    point.h = point.h[: hazards.WIDTH]


def _shrink_and_grow(point: Point) -> Any:
    sizes = point.h.size(), point.h.stride()
    point.h.resize_(4)
    point.h.as_strided_(*sizes)


def _set_to_another(point: Point) -> Any:
    point.h.set_(point.h.clone() * 2)


def _set_input(point: Point) -> Any:
    """The input's tensor shows the value's memory from now on."""
    point.x.set_(point.h)
    return point.x + 1


def _swap_data(point: Point) -> Any:
    point.h.data = point.h.data.clone() + 1


def _resize_storage(point: Point) -> Any:
    """As sharded training does: memory given back, taken again, filled again."""
    storage = point.h.untyped_storage()
    size, values = storage.size(), point.h.clone()
    storage.resize_(0)
    storage.resize_(size)
    point.h.copy_(values)


def _resize_weights_storage(point: Point) -> Any:
    storage = point.w.untyped_storage()
    size, values = storage.size(), point.w.clone()
    storage.resize_(0)
    storage.resize_(size)
    point.w.copy_(values)


def _resize_inputs_storage(point: Point) -> Any:
    point.x.untyped_storage().resize_(4 * point.x.untyped_storage().size())
    return point.x + 1


def _copy_deeply(point: Point) -> Any:
    twin = copy.deepcopy(point.h)
    twin += 1
    return [twin, *copy.deepcopy(point.seen)]


def _pickle(point: Point) -> Any:
    return pickle.loads(pickle.dumps([point.h, *point.seen]))


def _save(point: Point) -> Any:
    file = io.BytesIO()
    torch.save({"h": point.h, "seen": point.seen}, file)
    file.seek(0)
    return torch.load(file)


def _share(point: Point) -> Any:
    """Moves a value of the host to shared memory."""
    point.h.share_memory_()
    return point.h + 1


def _drop(point: Point) -> Any:
    point.seen.clear()


def _look_at_version(point: Point) -> Any:
    return torch.tensor([point.h._version, point.w._version])


def _view_as_other_bits(point: Point) -> Any:
    bits = point.h.contiguous().view(torch.int32)
    return [bits + 1, bits.view(torch.uint8)[..., 1] ^ 3]


def _write_parts_through_views(point: Point) -> Any:
    point.h[1:3].add_(1)
    point.h.t()[0].zero_()
    return torch.as_strided(point.h, (3, 2), (1, 0)).clone()


def _swap_tensors(point: Point) -> Any:
    other = point.h * 3
    torch.utils.swap_tensors(point.h, other)
    return other + 1


def _complex_views(point: Point) -> Any:
    pairs = torch.view_as_complex(point.h.reshape(-1, 2).contiguous())
    return [(pairs.conj() * pairs).real, pairs.imag + 1, torch.view_as_real(pairs)]


@cases
@pytest.mark.parametrize(
    "hazard",
    [
        _write_by_dlpack,
        _keep_dlpack,
        _write_weight_by_dlpack,
        _resize_value,
        _shrink_and_grow,
        _set_to_another,
        _set_input,
        _swap_data,
        _resize_storage,
        _resize_weights_storage,
        _resize_inputs_storage,
        _copy_deeply,
        _pickle,
        _save,
        _share,
        _drop,
        _look_at_version,
        _view_as_other_bits,
        _write_parts_through_views,
        _swap_tensors,
        _complex_views,
    ],
)
def test_between_two_ops(device: str, hazard: Hazard, case: Case) -> None:
    check_case(device, hazard, case)


def _write_by_numpy(point: Point) -> Any:
    return _through(point.h, lambda h: numpy.multiply(h.numpy(), 2, out=h.numpy()))


def _write_by_address(point: Point) -> Any:
    return _through(point.h, lambda h: ctypes.memset(h.data_ptr(), 0, h.nbytes // 2))


def _write_by_numpys_dlpack(point: Point) -> Any:
    array = numpy.asarray(point.h)
    array[..., 1] = -3
    return torch.from_numpy(array) + 1


def _write_by_storage(point: Point) -> Any:
    point.h.untyped_storage()[2] = 1
    return point.h.clone()


def _write_weight_by_numpy(point: Point) -> Any:
    point.w.numpy()[0] += 0.5


@cases
@pytest.mark.parametrize(
    "hazard",
    [
        _write_by_numpy,
        _write_by_address,
        _write_by_numpys_dlpack,
        _write_by_storage,
        _write_weight_by_numpy,
    ],
)
def test_writing_host_memory_between_two_ops(hazard: Hazard, case: Case) -> None:
    check_case("cpu", hazard, case)


def _unseen_array(tensor: torch.Tensor) -> Any:
    """An array over a tensor's memory, whose address nobody was asked for, as C++ has it."""
    of_data = tensor.untyped_storage()._cdata + 16  # in torch's StorageImpl
    address = ctypes.c_void_p.from_address(of_data).value
    assert address is not None
    memory = (ctypes.c_float * tensor.numel()).from_address(address)
    return numpy.frombuffer(memory, numpy.float32).reshape(tensor.shape)


def _writing_unseen(
    writes: Callable[[int], bool], wait: Callable[[], object], passes: int
) -> list[torch.Tensor]:
    """Each pass reads a weight that it may have changed, in its middle, unseen."""
    torch.manual_seed(7)
    w = torch.randn(8, 8)
    array = _unseen_array(w)
    kept = []
    for number in range(passes):
        h = torch.randn(8, 8)
        for _ in range(6):
            h = (h + 0.5).relu_()
        if writes(number):
            array[number % 8] = number / 7
        for _ in range(3):
            h = torch.tanh(h @ w)
        kept.append(h)
        wait()
    return kept


def test_an_unseen_writer_from_the_first_pass_on() -> None:
    """A validation or a recording sees it; no plan that reads too early replaces eager."""
    _, report = same_as_eager(
        "cpu", lambda wait: _writing_unseen(lambda number: True, wait, 150)
    )
    told = str(report)
    assert "gave other bits than eager" in told or "written past the operators" in told


def test_an_unseen_writer_that_comes_late_is_found_by_sampling() -> None:
    """The limit: what is read too early is only noticed when a replay is sampled."""
    found: list[torch.Tensor] = []

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        return _writing_unseen(lambda number: number >= 40, wait, 120)

    with reprise.session("cpu", policy="always", validate_share=0.25) as session:
        session.reset()
        found = run(lambda: rest(session))
        report = session.explain()
        assert session.stats().replays > 0, str(report)
    expected = run(lambda: None)
    assert_same_bits(found[:40], expected[:40])
    assert_same_bits(found[60:], expected[60:])
    assert "gave other bits than eager" in str(report)


_Shared = tuple[torch.Tensor, Callable[[int], object]]  # and what writes there


def _written_by(array: Any) -> Callable[[int], object]:
    return lambda number: array.__setitem__(slice(1, None), number)


def _an_array() -> _Shared:
    array = numpy.zeros(8, numpy.float32)
    return torch.from_numpy(array), _written_by(array)


def _array_of_a_tensor() -> _Shared:
    tensor = torch.zeros(16)
    return tensor[4:12], _written_by(tensor.numpy()[4:12])


def _array_of_a_parameter() -> _Shared:
    tensor = torch.nn.Parameter(torch.zeros(8))
    return tensor, _written_by(numpy.asarray(tensor.detach()))


def _buffer() -> _Shared:
    memory = bytearray(32)
    array = numpy.frombuffer(memory, numpy.float32)
    return torch.frombuffer(memory, dtype=torch.float32), _written_by(array)


def _lent_by_dlpack() -> _Shared:
    tensor = torch.zeros(8)
    lent = torch.from_dlpack(tensor)
    array = _unseen_array(lent)
    return tensor, _written_by(array)


def _lent_by_name() -> _Shared:
    tensor = torch.zeros(8)
    lent = torch.from_dlpack(torch.to_dlpack(data=tensor))
    return tensor, _written_by(_unseen_array(lent))


def _taken_by_dlpack() -> _Shared:
    array = numpy.zeros(8, numpy.float32)
    return torch.from_dlpack(array), _written_by(array)


def _known_address() -> _Shared:
    tensor = torch.zeros(8)
    address = tensor.data_ptr()
    return tensor, lambda number: ctypes.memset(address, number % 50, 16)


def _known_address_of_a_storage() -> _Shared:
    tensor = torch.zeros(8)
    address = tensor.untyped_storage().data_ptr()
    return tensor, lambda number: ctypes.memset(address, number % 50, 16)


def _of_processes() -> _Shared:
    tensor = torch.zeros(8).share_memory_()
    return tensor, _written_by(_unseen_array(tensor))


@pytest.mark.parametrize("late", [0, 20])
@pytest.mark.parametrize(
    "make",
    [
        _an_array,
        _array_of_a_tensor,
        _array_of_a_parameter,
        _buffer,
        _lent_by_dlpack,
        _lent_by_name,
        _taken_by_dlpack,
        _known_address,
        _known_address_of_a_storage,
        _of_processes,
    ],
)
def test_memory_that_others_may_write(make: Callable[[], _Shared], late: int) -> None:
    """They write between two ops of some passes: each op reads what is there when it comes."""

    def run(wait: Callable[[], object]) -> list[torch.Tensor]:
        torch.manual_seed(7)
        w = torch.randn(8, 8)
        shared, write = make()
        kept = []
        for number in range(60):
            h = torch.tanh(torch.randn(8, 8) @ w)
            h = (h + 1) * 2
            if number >= late and number % 3 == 0:
                write(number)
            h = h.sin() * shared
            if number >= late and number % 4 == 1:
                write(number + 5)
            kept.append(h.cos() + shared)
            wait()
        return kept

    stats, report = same_as_eager("cpu", run)
    assert stats.followed > stats.ops / 2, str(report)
