"""A region of a method, as it is read from an object."""

from __future__ import annotations

from typing import Any

from reprise import _dynamo
from reprise._region_report import RegionReport


class Method:
    """A region of a method, and its object for as long as that is at hand."""

    __slots__ = ("__self__", "_reprise_region")
    _reprise_is_region = True

    def __init__(self, of: Any, owner: Any) -> None:
        self._reprise_region = of
        self.__self__ = owner

    @_dynamo.head
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._reprise_region(*args, **kwargs)

    def explain(self) -> RegionReport:
        """See `Region.explain`."""
        report: RegionReport = self._reprise_region.explain()
        return report
