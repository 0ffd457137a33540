"""Results that hold one object as an entry and as an attribute, as transformers' outputs do."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import reprise
import torch
from reprise import _results
from reprise.guards import tree
from torch import nn
from watching import assert_same_bits

CALLS = 8


class Cache:
    """What a model gives back beside its scores."""

    def __init__(self, keys: torch.Tensor) -> None:
        self.layers = [keys]


class Output(OrderedDict[str, Any]):
    """Entries that are attributes, too."""

    def __init__(self, scores: torch.Tensor, cache: Cache) -> None:
        super().__init__(scores=scores, cache=cache)
        self.scores = scores
        self.cache = cache


class Model(nn.Module):
    """Gives its keys."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> Output:
        """A new output and a new cache."""
        keys = self.first(x)
        return Output(self.last(keys), Cache(keys.tanh()))


@torch.no_grad()
def test_an_object_that_an_output_holds_twice_is_one(device: str) -> None:
    torch.manual_seed(0)
    model = Model().to(device)
    fast = reprise.region(model)
    before = None
    for _ in range(CALLS):
        x = torch.randn(2, 4, device=device)
        found, expected = fast(x), model(x)
        assert type(found) is Output and type(found.cache) is Cache
        assert found["cache"] is found.cache
        assert found["scores"] is found.scores
        assert_same_bits(
            [found.scores, *found.cache.layers],
            [expected.scores, *expected.cache.layers],
        )
        assert found.cache is not before
        before = found.cache
    assert fast.explain().replayed >= CALLS - 3, str(fast.explain())


def said_of(box: list[Any]) -> str | None:
    return _results.held_elsewhere(box, tree.Parts())


def test_an_object_that_something_else_holds_is_none_to_make() -> None:
    box = [Output(torch.ones(2), Cache(torch.ones(2)))]
    assert said_of(box) is None
    holder = [box[0].cache]
    assert "something else holds" in str(said_of(box))
    holder[0] = box[0].cache.layers
    assert "something else holds" in str(said_of(box))
    holder.clear()
    assert said_of(box) is None
    box[0]["again"] = [box[0].cache]
    assert "in two places" in str(said_of(box))
    del box[0]["again"]
    del box[0].cache  # it is held once
    assert said_of(box) is None
    holder.append(box[0]["cache"])
    assert "something else holds" in str(said_of(box))
