"""Code in C that takes the value of a float, and asks the float nothing."""

from __future__ import annotations

import array
import cProfile
import ctypes
import datetime
import enum
import functools
import math
import operator
import pickle
import sqlite3
import struct
import sys
import types
from collections.abc import Callable, Iterator
from struct import pack
from typing import Any

import pytest
import reprise
import torch
from reprise.guards.values import takes_value
from watching import assert_same_bits

# The first ones alike: whoever takes their values gives a number that seems to be a constant.
NUMBERS = [0.5] * 6 + [0.25, 0.75, 1.5, 1.0, 2.0, 0.75] + [0.5] * 4

Takes = Callable[[float], Any]


def check(fn: Callable[..., torch.Tensor], *others: Any) -> reprise.RegionReport:
    """A region beside its callable."""
    fast: Any = reprise.region(fn)
    for number in NUMBERS:
        x = torch.randn(4)
        assert_same_bits([fast(x, number, *others)], [fn(x, number, *others)])
    report: reprise.RegionReport = fast.explain()
    assert report.replayed >= 4, str(report)
    return report


HEX, IS_INTEGER, TO_INTEGER = float.hex, float.is_integer, float.__int__
REAL: Any = vars(float)["real"]
PACK = struct.Struct("d").pack
DUMP = pickle.dumps
STRUCT = struct.Struct("d")
FLOAT = float
MORE = "__gt__"
METHOD = operator.methodcaller
DURATION = datetime.timedelta
IMAGINARY = 1j


class Rate(float):
    pass


class Rates(float, enum.Enum):
    HIGH = 0.75


class Text(str):
    __slots__ = ()


class Packer(struct.Struct):
    pass


RATE, TEXT, PACKER = Rate(0.6), Text("%.2f"), Packer("d")
HELD = types.SimpleNamespace(
    text="%.2f", with_key="%(a rate)f", bytes=b"%f", imaginary=2j, duration=DURATION
)


def in_a_view(number: float) -> float:
    view = memoryview(bytearray(8)).cast("d")
    view[0] = number
    return view[0] > 0.6


ARRAY: Any = (ctypes.c_double * 1)()


def in_an_array(number: float) -> bool:
    ARRAY[0] = number
    return bool(ARRAY[0] > 0.6)


def in_an_inner_function(number: float) -> bool:
    write = lambda: "%.2f" % number  # noqa: E731, UP031
    return write() > "0.6"


TAKERS: dict[str, Takes] = {
    "a method of the class": lambda f: HEX(f) > "0x1.3p-1",
    "another one": lambda f: IS_INTEGER(f),
    "an operator of the class": lambda f: TO_INTEGER(f) > 0,
    "an attribute of the class": lambda f: REAL.__get__(f) > 0.6,
    "the class under another name": lambda f: FLOAT.hex(f) > "0x1.3p-1",
    "the class by text": lambda f: getattr(float, "hex")(f) > "0x1.3p-1",  # noqa: B009
    "a method that a text names": lambda f: getattr(1.0, MORE)(f),
    "a caller of such a method": lambda f: METHOD(MORE, f)(1.0),
    "pack": lambda f: pack("d", f)[6] > 230,
    "pack of an object": lambda f: PACK(f)[6] > 230,
    "an object": lambda f: STRUCT.pack(f)[6] > 230,
    "pickle": lambda f: len(DUMP(f)) > 30,
    "a complex number": lambda f: (0.75 + 0j) == f,  # noqa: SIM300
    "a complex global": lambda f: abs(IMAGINARY * f) > 0.6,
    "a complex attribute": lambda f: abs(HELD.imaginary * f) > 1.2,
    "a view of memory": in_a_view,
    "an inner function": in_an_inner_function,
    "a key with a space": lambda f: ("%(a rate)f" % {"a rate": f}) > "0.6",  # noqa: UP031
    "a text of an object": lambda f: (HELD.text % f) > "0.6",
    "such a key of an object": lambda f: (HELD.with_key % {"a rate": f}) > "0.6",
    "bytes of an object": lambda f: (HELD.bytes % f) > b"0.6",
    "mod": lambda f: operator.mod(HELD.text, f) > "0.6",
    "a class of an object": lambda f: HELD.duration(seconds=f).microseconds > 600000,
    "a default": lambda f, to=float.__int__: to(f),  # type: ignore[misc]
    "a partial": functools.partial(float.__gt__, 0.6),
    "a float of another class": lambda f: RATE < f,  # noqa: SIM300
    "one that is made": lambda f: Rate(0.6) < f,
    "a member of an enum": lambda f: Rates.HIGH == f,  # noqa: SIM300
    "a text of another class": lambda f: (TEXT % f) > "0.6",
    "an object of a class of the program's": lambda f: PACKER.pack(f)[6] > 230,
    "a complex number of a text": lambda f: complex("0.75") == f,
    "an array of ctypes": in_an_array,
    "mod, mapped": lambda f: next(map(operator.mod, ["%.2f"], [f])) > "0.6",
    "an array": lambda f: array.array("d", [f])[0] > 0.6,
}


@pytest.mark.parametrize("takes", TAKERS.values(), ids=TAKERS)
def test_a_number_whose_value_code_in_c_takes(takes: Takes) -> None:
    check(lambda x, f: x * 2 if takes(f) else x * 3)


GIVEN: dict[str, tuple[Callable[[float, Any], bool], Any]] = {
    "complex": (lambda f, of: bool(of == f), 1.5 + 0j),
    "complex, inside": (lambda f, of: bool(of[0] == f), (1.5 + 0j,)),
    "another float": (lambda f, of: bool(of < f), Rate(0.6)),
    "another float, inside": (lambda f, of: bool(of[0] < f), [Rate(0.6)]),
    "a text": (lambda f, of: (of % f) > "0.6", "%.2f"),
    "a text, inside": (lambda f, of: (of[0][1] % f) > "0.6", [("", "%.2f")]),
    "a name": (lambda f, of: getattr(0.6, of)(f), "__lt__"),
    "a function": (lambda f, of: bool(of(f)), float.is_integer),
}


@pytest.mark.parametrize(("takes", "of"), GIVEN.values(), ids=GIVEN)
def test_an_argument_that_takes_the_value(
    takes: Callable[[float, Any], bool], of: Any
) -> None:
    check(lambda x, f, of: x * 2 if takes(f, of) else x * 3, of)


def test_a_complex_number_of_a_tensor_is_asked() -> None:
    complexes = torch.tensor([0.75 + 0j])

    def fn(x: torch.Tensor, number: float) -> torch.Tensor:
        return x * 2 if complexes.sum().item() == number else x * 3

    check(fn)


def test_a_connection_takes_it() -> None:
    """Of an object that is written in C."""
    connection = sqlite3.connect(":memory:")

    def fn(x: torch.Tensor, number: float) -> torch.Tensor:
        (found,) = connection.execute("select ? > 0.6", (number,)).fetchone()
        return x * 2 if found else x * 3

    check(fn)


def test_code_of_a_package_has_code_in_c_take_it() -> None:
    """The program names nothing that does: it calls the package's Python."""
    pytest.importorskip("PIL")
    from PIL import Image

    def fn(x: torch.Tensor, number: float) -> torch.Tensor:
        pixel: Any = Image.new("F", (1, 1), number).getpixel((0, 0))
        return x * 2 if pixel > 0.6 else x * 3

    check(fn)


def test_code_in_c_that_is_given_other_numbers() -> None:
    """Torch's Python has `math` compute with sizes, and gives it no number of the call's."""

    def fn(x: torch.Tensor, number: float) -> torch.Tensor:
        found = torch.nn.functional.multi_head_attention_forward(
            *(x[:, None, None], x[:, None, None], x[:, None, None], 1, 1),
            *(torch.ones(3, 1), torch.zeros(3), None, None, False, 0.0),
            *(torch.ones(1, 1), torch.zeros(1)),
        )
        return found[0] * number

    fast: Any = reprise.region(fn)
    for number in [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]:
        x = torch.randn(4)
        assert_same_bits([fast(x, number)], [fn(x, number)])
    assert fast.explain().replayed == 6, str(fast.explain())


SCALE = 2.0


def test_ordinary_numbers_beside_it() -> None:
    """A global and an argument that are floats, a class that is led to, and a remainder."""
    held = types.SimpleNamespace(kind=dict, text="%d", every=3)

    def fn(x: torch.Tensor, number: float, more: float, step: int) -> torch.Tensor:
        name = "layer%d" % (step % held.every)  # noqa: UP031
        return x * number * SCALE + more if name == "layer0" else x * more

    fast: Any = reprise.region(fn)
    for number in [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]:
        x = torch.randn(4)
        assert_same_bits([fast(x, number, 1.5, 3)], [fn(x, number, 1.5, 3)])
    assert fast.explain().replayed == 6, str(fast.explain())


@pytest.fixture
def package() -> Iterator[Callable[[str], Any]]:
    """What makes an installed package of a text."""
    name = "installed_taker"

    def make(source: str) -> Any:
        module: Any = types.ModuleType(name)
        module.__file__ = f"/nowhere/site-packages/{name}.py"
        sys.modules[name] = module
        exec(compile(source, module.__file__, "exec"), module.__dict__)
        return module

    yield make
    sys.modules.pop(name, None)


# Each has a function of the number, or an object with a method of that name.
OF_PACKAGES = {
    "a function": "import math\ndef takes(f): return math.sqrt(f) > 0.8",
    "a class": "from decimal import Decimal\ndef takes(f): return Decimal(f) > Decimal('0.6')",
    "a module's class": "import decimal\ndef takes(f): return decimal.Decimal(f).__float__() > 0.6",
    "a class of an object": (
        "from decimal import Decimal\n"
        "class Of:\n"
        "    def __init__(self): self.made = Decimal\n"
        "    def takes(self, f): return self.made(f) > 0.6\n"
        "takes = Of().takes"
    ),
    "a complex number": "def takes(f): return (0.75 + 0j) == f",
    "a text": "def takes(f): return '%.2f' % f > '0.6'",
    "a method of a number": "def takes(f): return (0.6).__lt__(f)",
    "a class inside": (
        "def takes(f):\n    import decimal as d\n    return d.Decimal(f) > d.Decimal('0.6')"
    ),
    "an attribute": (
        "import math\n"
        "class Of: pass\n"
        "def takes(f):\n"
        "    of = Of()\n"
        "    of.rate = f\n"
        "    return math.sqrt(of.rate) > 0.8"
    ),
    "a list": "import math\ndef takes(f): return math.fsum([f]) > 0.6",
    "the last one of two": "import math\ndef takes(f): return math.pow(2, f) > 1.5",
    "a function in turn": "import math\n"
    "def takes(f):\n"
    "    g = math.sqrt if f > 2 else abs\n"
    "    return math.log(g(f)) > -0.5",
    "a function that was given": "import math\n"
    "def takes(f, g=lambda f: f): return math.log(g(f)) > -0.5",
    "a sum with it": "import math\ndef takes(f): return math.sqrt(2 * math.pi + f) > 2.6",
    "a root of it": "import math\ndef takes(f): return math.log(math.sqrt(f)) > -0.2",
    "one of two": "import math\ndef takes(f): return math.sqrt(f if f else 1.0) > 0.8",
    "numpy's": "import numpy\ndef takes(f): return bool(numpy.floor(f) > 0)",
}


@pytest.mark.parametrize("source", OF_PACKAGES.values(), ids=OF_PACKAGES)
def test_code_of_a_package_takes_it(source: str, package: Callable[[str], Any]) -> None:
    takes = package(source).takes
    check(lambda x, f: x * 2 if takes(f) else x * 3)


def test_a_package_with_a_library_in_c(package: Callable[[str], Any]) -> None:
    """Its functions may be of a class of their own, whose calls no hook sees."""
    library: Any = types.ModuleType("installed_library")
    library.__file__ = "/nowhere/site-packages/installed_library.abi3.so"

    class Root:
        __slots__ = ()
        __call__ = staticmethod(functools.partial(math.pow, 2.0))

    library.root = Root()
    sys.modules[library.__name__] = library
    try:
        takes = package(
            "import installed_library\n"
            "def takes(f): return installed_library.root(f) > 1.5"
        ).takes
        check(lambda x, f: x * 2 if takes(f) else x * 3)
    finally:
        del sys.modules[library.__name__]


def test_beside_a_profiler_in_c(package: Callable[[str], Any]) -> None:
    """Nobody sees what functions in C are called."""
    takes = package(OF_PACKAGES["a function"]).takes
    with cProfile.Profile():
        check(lambda x, f: x * 2 if takes(f) else x * 3)


OTHERS = {
    "an attribute": "math.sqrt(self.size)",
    "a quotient": "math.sqrt(1.0 / self.size)",
    "a shape": "math.sqrt(x.shape[-1])",
    "a size": "math.sqrt(x.size(0))",
    "a constant": "math.sqrt(4)",
    "a logarithm of a root": "math.log(math.sqrt(2 * math.pi))",
    "a power of constants": "math.sqrt(-2 * -math.pi**2 + math.log(3))",
}


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_code_of_a_package_that_is_given_others(
    given: str, package: Callable[[str], Any]
) -> None:
    """A number that operators take goes on to vary."""
    made = package(
        "import math\n"
        "class Of:\n"
        "    def __init__(self): self.size = 4\n"
        "    def scaled(self, x, f): return x * f / " + given
    ).Of()
    fast: Any = reprise.region(lambda x, f: made.scaled(x, f))
    for number in [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8]:
        x = torch.randn(4)
        assert_same_bits([fast(x, number)], [made.scaled(x, number)])
    assert fast.explain().replayed == 6, str(fast.explain())


def test_a_float_beside_a_normal_distribution(device: str) -> None:
    """Whose density is computed with a logarithm of a root of constants."""

    def fn(mean: torch.Tensor, weight: float) -> torch.Tensor:
        normal = torch.distributions.Normal(mean, mean.exp(), validate_args=False)
        return normal.log_prob(mean + 1) * weight

    fast: Any = reprise.region(fn)
    for call in range(8):
        mean = torch.randn(4, device=device)
        assert_same_bits([fast(mean, 0.1 * call)], [fn(mean, 0.1 * call)])
    assert fast.explain().replayed == 6, str(fast.explain())


def test_objects_of_libraries_in_c() -> None:
    """Of a class that says it is of a module in C, and is called itself: no hook sees that."""
    name = "installed_library"

    class Root:
        def __call__(self, number: float) -> float:
            return math.sqrt(number)

    Root.__module__ = name
    module: Any = types.ModuleType(name)
    module.__file__ = f"/nowhere/site-packages/{name}.abi3.so"
    root = Root()
    assert not takes_value(root)
    sys.modules[name] = module  # it comes
    try:
        assert takes_value(root)
        assert takes_value(Root)
        assert not takes_value(torch.add)
        assert not takes_value(torch.nn.ReLU())
        assert not takes_value(len)
        assert not takes_value([].append)
    finally:
        del sys.modules[name]
