"""`torch.compile(model, backend="reprise")`: Dynamo's graphs, eager's operators and bits."""

from __future__ import annotations

import threading
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import torch

from reprise._region import CHECKS, Check, Region, functions

_MOST_PARAMETERS = 8  # sets of them that a graph is called with
_STATIC = "_dynamo_static_input_type"


class _Parameters:
    """Some tensors, and a region that leads to them; it is of no use without one."""

    def __init__(self, tensors: Sequence[torch.Tensor], region: Region) -> None:
        self.region = region
        self.ids = array("q", map(id, tensors))
        self.address = self.ids.buffer_info()[0]
        self.alive = True
        this = weakref.ref(self)

        def gone(_: object) -> None:
            if (parameters := this()) is not None:
                parameters.alive = False

        self._refs = [weakref.ref(each, gone) for each in tensors]


class _Bound:
    """A graph that leads to its parameters and buffers, as modules do.

    Dynamo gives them with each call, though they are what they were: as arguments each
    would be looked up, and all views of it made, each time. Does not keep them.
    """

    def __init__(
        self, run: Callable[..., Any], static: list[int], count: int, check: Check
    ) -> None:
        self._run = run
        self._static = array("q", static)
        self._where = self._static.buffer_info()  # and how many
        self._others = sorted(set(range(count)) - set(static))
        self._check = check
        self._known: list[_Parameters] = []  # the ones used last come first
        self._general: Region | None = None  # where there are too many
        self._call = threading.local()
        self._are_these = functions()[1]

    def __call__(self, *args: Any) -> Any:
        if self._general is not None:
            return self._general(*args)
        region = self._led_to(args)
        if region is None:
            self._general = Region(self._run, self._check, guarded=True)
            self._known = []
            return self._general(*args)
        call = self._call
        outer = getattr(call, "args", None)
        call.args = args
        try:
            return region(*[args[index] for index in self._others])
        finally:
            call.args = outer

    def _led_to(self, args: tuple[Any, ...]) -> Region | None:
        places, count = self._where
        known = self._known
        for index, each in enumerate(known):
            if self._are_these(args, places, each.address, count) and each.alive:
                if index > 0:
                    self._known = [each, *(one for one in known if one is not each)]
                return each.region
        alive = [each for each in known if each.alive]
        if len(alive) == _MOST_PARAMETERS:
            return None
        region = Region(self._with_static, self._check, guarded=True)
        static = [args[index] for index in self._static]
        self._known = [_Parameters(static, region), *alive]
        return region

    def _with_static(self, *others: Any) -> Any:
        args = list(self._call.args)
        for index, value in zip(self._others, others, strict=True):
            args[index] = value
        return self._run(*args)


class _Backend:
    """What Dynamo calls for each graph that it has captured.

    The graph runs as Dynamo wrote it down, by eager's operators, autograd's and
    autocast's included, and once two calls have asked for the same, without Python.
    Nothing is decomposed or compiled, and what cannot be replayed runs as it is.

    ``options={"check": "sample" | "always" | "never"}`` as for `reprise.region`;
    ``mode`` is taken and changes nothing.
    """

    compiler_name = "reprise"

    def __call__(
        self,
        graph: torch.fx.GraphModule,
        _: list[Any],
        *,
        mode: str | None = None,
        options: dict[str, Any] | None = None,
    ) -> Callable[..., Any]:
        del mode
        known = dict(options or {})
        check = known.pop("check", "sample")
        if known or check not in CHECKS:
            raise ValueError(
                f"reprise: options does not accept {options!r}: give "
                f"{{'check': one of {', '.join(CHECKS)}}}"
            )
        # Dynamo guards what the graph was made from; its own values are constants.
        inputs = graph.graph.find_nodes(op="placeholder")
        static = [
            index
            for index, node in enumerate(inputs)
            if _STATIC in (node.meta.get("tensor_dict") or {})
        ]
        if not static:
            return Region(graph.forward, check, guarded=True)
        return _Bound(graph.forward, static, len(inputs), check)


reprise = _Backend()
