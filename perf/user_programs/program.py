"""What a program of the benchmark is: how it is built, run and compared.

    @program("transformers")
    def encoder(setting: Setting) -> Built:
        \"\"\"BERT encodes a batch of texts.\"\"\"
        ...
        return Built(step, [model])

``step(i)`` is pass i, on new data, and gives what the program shows of it. What a user
would give to `reprise.region` goes through ``setting.region``: a training step as a
function of its batch, a model that only infers, the step of a solver. All that passes
change is named by ``Built.kept``. `digests` has both, and the random number
generators, as names with a hash of all bits: two runs are equal if these are.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import random
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import torch

POOL = 16  # batches of a program, which passes take in turn
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Setting:
    """Where a program is built, and how large: ``small`` for tests, ``full`` for a GPU.

    ``regions`` has the regions that the program makes, in the order in which it makes
    them. Without such a list it makes none.
    """

    device: str = "cuda"
    size: str = "full"
    seed: int = 0
    regions: list[Any] | None = dataclasses.field(
        default=None, compare=False, repr=False
    )

    def region(self, fn: F) -> F:
        """The function or module as a region, or as it is if the program makes none."""
        if self.regions is None:
            return fn
        import reprise

        made = reprise.region(fn)
        self.regions.append(made)
        return made

    def pick(self, small: Any, full: Any) -> Any:
        """The one of this size."""
        return {"small": small, "full": full}[self.size]

    def batches(
        self, make: Callable[[], Any], count: int = POOL
    ) -> Callable[[int], Any]:
        """Gives the batch of pass i, which was made on the host, on the device.

        ``make()`` makes a batch: a tensor, or a tuple or dict of tensors. It is copied at
        each pass, as from the pinned memory of a data loader.
        """
        pinned = self.device.startswith("cuda")

        def host(value: torch.Tensor) -> torch.Tensor:
            return value.pin_memory() if pinned else value

        pool = [mapped(host, make()) for _ in range(count)]

        def there(value: torch.Tensor) -> torch.Tensor:
            # A copy on the host executor, too: another pass has other memory.
            return value.to(self.device, non_blocking=pinned, copy=True)

        return lambda i: mapped(there, pool[i % count])


def mapped(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """The same nest of tuples, lists and dicts, with the function's values of tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return {key: mapped(function, part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(mapped(function, part) for part in value)
    return value


@dataclasses.dataclass
class Built:
    """A program that is ready to run.

    ``kept`` are modules, optimizers, other objects with a ``state_dict``, tensors, nests
    of them, and functions without arguments that give such.
    """

    step: Callable[[int], Any]
    kept: list[Any]


@dataclasses.dataclass(frozen=True)
class Program:
    """A program: ``build(setting)`` builds it, ``needs`` names libraries beside torch."""

    name: str
    line: str
    build: Callable[[Setting], Built]
    needs: tuple[str, ...]

    def start(self, setting: Setting) -> Built:
        """Build it from the seed, which all generators begin with."""
        seed_all(setting.seed)
        built = self.build(setting)
        seed_all(setting.seed + 1)
        return built


def program(*needs: str) -> Callable[[Callable[[Setting], Built]], Program]:
    """Makes a program of a function: its name, and the first line of its docstring."""

    def decorate(build: Callable[[Setting], Built]) -> Program:
        assert build.__doc__, f"{build.__name__} does not say what it does"
        line = build.__doc__.splitlines()[0]
        return Program(build.__name__, line, build, needs)

    return decorate


def missing(found: Program) -> str | None:
    """A sentence that says which library it lacks, if it does."""
    for library in found.needs:
        if importlib.util.find_spec(library) is None:
            return f"{found.name} is left out: the library {library} is not installed"
    return None


def settle_numerics() -> None:
    """Of all ways alike: results that come again, and products in TF32."""
    torch.backends.cudnn.deterministic = True
    torch.set_float32_matmul_precision("high")


def seed_all(seed: int) -> None:
    """Torch's generators, Python's and numpy's."""
    import numpy

    torch.manual_seed(seed)
    random.seed(seed)
    numpy.random.seed(seed)


def leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """All tensors, numbers and other values in what is shown or kept, with their names."""
    if isinstance(value, torch.nn.Module):
        for key, tensor in (*value.named_parameters(), *value.named_buffers()):
            yield f"{name}.{key}", tensor
        for key, parameter in value.named_parameters():
            if parameter.grad is not None:
                yield f"{name}.{key}.grad", parameter.grad
    elif isinstance(value, torch.Tensor):
        yield name, value
        if value.is_leaf and value.grad is not None:
            yield f"{name}.grad", value.grad
    elif isinstance(value, dict):
        for key, part in value.items():
            yield from leaves(part, f"{name}.{key}")
    elif isinstance(value, (list, tuple)):
        for index, part in enumerate(value):
            yield from leaves(part, f"{name}.{index}")
    elif hasattr(value, "to_tuple"):  # an output of transformers
        yield from leaves(dict(value), name)
    elif hasattr(value, "state_dict"):
        yield from leaves(value.state_dict(), name)
    elif callable(value):
        yield from leaves(value(), name)
    else:
        yield name, value


def digest(value: Any) -> str:
    """A hash of a tensor's dtype, shape, strides and bits, or of another value's text."""
    if not isinstance(value, torch.Tensor):
        return hashlib.sha256(repr(value).encode()).hexdigest()[:24]
    value = value.detach()
    if value.layout != torch.strided:
        value = value.to_dense()
    said = f"{value.dtype} {tuple(value.shape)} {value.stride()}"
    found = hashlib.sha256(said.encode())
    bits = (
        value.cpu()
        .resolve_conj()
        .resolve_neg()
        .contiguous()
        .reshape(-1)
        .view(torch.uint8)
    )
    found.update(bits.numpy())
    return found.hexdigest()[:24]


def generators(device: str) -> dict[str, Any]:
    """The states of the generators that programs draw from."""
    import numpy

    drawn: Any = numpy.random.get_state()
    states: dict[str, Any] = {
        "cpu": torch.get_rng_state(),
        "python": random.getstate(),
        "numpy": str(drawn[1].tolist()),
    }
    if device.startswith("cuda"):
        states["cuda"] = torch.cuda.get_rng_state()
    return states


def digests(outputs: list[Any], built: Built, device: str) -> dict[str, str]:
    """A hash of all that was shown in the passes and is left after them, by name."""
    states = generators(device)
    found = {f"generators.{name}": digest(value) for name, value in states.items()}
    for index, output in enumerate(outputs):
        for name, value in leaves(output, f"pass {index}"):
            found[name] = digest(value)
    for index, kept in enumerate(built.kept):
        for name, value in leaves(kept, f"kept {index} {type(kept).__name__}"):
            found[name] = digest(value)
    return found
