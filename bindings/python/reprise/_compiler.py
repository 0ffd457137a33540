"""`torch.compile(model, backend="reprise")`: Dynamo's graphs, eager's operators and bits."""

from __future__ import annotations

import operator
import re
import weakref
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import torch

from reprise._frames import is_torchs
from reprise._region import CHECKS, Check, Region
from reprise._region_functions import functions, warn_once, why_unusable
from reprise._swapping import refers
from reprise._variables import switched_off

_MOST_PARAMETERS = 8  # sets of them that a graph is called with
_STATIC = "_dynamo_static_input_type"
_RESUMED = re.compile(r"torch_dynamo_resume_in_(.+)_at_(\d+)$")
_place = operator.itemgetter(0)


class _Parameters:
    """Some tensors, and a region that leads to them; it is of no use without one."""

    def __init__(
        self,
        tensors: Sequence[torch.Tensor],
        run: Callable[[list[torch.Tensor], tuple[Any, ...]], Any],
        check: Check,
        name: str,
    ) -> None:
        """`run` takes them, and the arguments of a call."""
        self._run = run
        self.region = Region(self._with_tensors, check, guarded=True, name=name)
        self.ids = array("q", map(id, tensors))
        self.address = self.ids.buffer_info()[0]
        self.alive = True
        this = weakref.ref(self)

        def gone(_: object) -> None:
            if (parameters := this()) is not None:
                parameters.alive = False

        self._refs = [weakref.ref(each, gone) for each in tensors]

    def let_go(self) -> None:
        """It is of no use any longer, whoever still holds it."""
        self.alive = False
        self._refs = []

    def _with_tensors(self, *others: Any) -> Any:
        """Also behind a call, where its gradients are asked for."""
        tensors = [each for ref in self._refs if (each := ref()) is not None]
        if not self.alive or len(tensors) < len(self._refs):
            raise RuntimeError(
                "reprise: gradients of a compiled call cannot be found: a parameter or "
                "buffer that it was made with has gone; keep the module until then"
            )
        return self._run(tensors, others)


class _Bound:
    """A graph that leads to its parameters and buffers, as modules do.

    Dynamo gives them with each call, though they are what they were: as arguments each
    would be looked up, and all views of it made, each time. Does not keep them.
    """

    def __init__(
        self,
        run: Callable[..., Any],
        static: list[int],
        count: int,
        check: Check,
        name: str,
    ) -> None:
        """`name`: of the graph, in reports."""
        self._run = run
        self._name = name
        self._static = array("q", static)
        self._where = self._static.buffer_info()  # and how many
        self._others = sorted(set(range(count)) - set(static))
        self._check = check
        self._known: list[_Parameters] = []  # the ones used last come first
        self._general: Region | None = None  # where there are too many
        refers(self)
        self._are_these = functions()[1]

    def let_go(self) -> None:
        """It knows no parameters any longer."""
        known, self._known = self._known, []
        for each in known:
            each.let_go()

    def __call__(self, *args: Any) -> Any:
        if self._general is not None:
            return self._general(*args)
        region = self._led_to(args)
        if region is None:
            self._general = Region(
                self._run, self._check, guarded=True, name=self._name
            )
            self._known = []
            return self._general(*args)
        return region(*[args[index] for index in self._others])

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
        static = [args[index] for index in self._static]
        made = _Parameters(static, self._run_with, self._check, self._name)
        self._known = [made, *alive]
        return made.region

    def _run_with(self, static: list[torch.Tensor], others: tuple[Any, ...]) -> Any:
        given = zip((*self._static, *self._others), (*static, *others), strict=True)
        return self._run(*[value for _, value in sorted(given, key=_place)])


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
        run: Callable[..., Any] = graph.forward
        if switched_off():
            return run
        if why := why_unusable():
            warn_once(why)
            return run
        # Dynamo guards what the graph was made from; its own values are constants.
        inputs = graph.graph.find_nodes(op="placeholder")
        static = [
            index
            for index, node in enumerate(inputs)
            if _STATIC in (node.meta.get("tensor_dict") or {})
        ]
        if not static:
            return Region(run, check, guarded=True, name=_name_of(graph))
        return _Bound(run, static, len(inputs), check, _name_of(graph))


def _name_of(graph: torch.fx.GraphModule) -> str:
    """The program's function that Dynamo has captured, and which of its graphs."""
    context = torch._guards.TracingContext.try_get()
    codes = [
        each
        for each in (getattr(context, "traced_code", None) or ())
        if not is_torchs(each.co_filename)
    ]
    number = torch._guards.CompileContext.current_compile_id()
    which = "" if number is None else f" [{number}]"
    if codes:
        # What lies behind a break of the graph is a function that Dynamo has made.
        name = getattr(codes[0], "co_qualname", codes[0].co_name)
        name = _RESUMED.sub(r"\1 from line \2", name)
    else:
        name = _module_of(graph)
    return f"torch.compile({name}){which}"


def _module_of(graph: torch.fx.GraphModule) -> str:
    """The class of the outermost module whose operators it has."""
    for node in graph.graph.nodes:
        for _, kind in (node.meta.get("nn_module_stack") or {}).values():
            return str(getattr(kind, "__qualname__", kind))
    return "a graph"


reprise = _Backend()
