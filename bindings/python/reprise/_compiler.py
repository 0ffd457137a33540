"""`torch.compile(model, backend="reprise")`: Dynamo's graphs, eager's operators and bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from reprise._region import CHECKS, Region


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
        return Region(graph.forward, check, guarded=True)


reprise = _Backend()
