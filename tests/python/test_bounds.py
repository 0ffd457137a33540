"""What is kept of programs that never repeat themselves stays within its bounds."""

from __future__ import annotations

import reprise
import torch
from watching import BUILD_TIMEOUT_S, settle

PLAN_BUDGET = 4 << 20
TRACE_BUDGET = 1 << 20
# The form that is taken for something that grows, as others came where it comes.
FIRST_NEW = 4


def _step(length: int) -> torch.Tensor:
    a = torch.ones(length)
    for _ in range(6):
        a = a * 1.5 + 0.1
    return a.sum()


def test_plans_that_nobody_comes_for_stay_within_the_budget() -> None:
    expected = [_step(50_000 + i).item() for i in range(40)]
    options = {"plan_budget_bytes": str(PLAN_BUDGET), "shared_arena_bytes": "1GiB"}
    with reprise.session("cpu", policy="always", **options) as session:
        session.reset()
        for i, value in enumerate(expected):
            # New, seen, and recorded twice: what is built then is of no use any more.
            for _ in range(4 if i == FIRST_NEW else 3):
                assert _step(50_000 + i).item() == value
            stats = session.stats()
            assert stats.plan_bytes <= PLAN_BUDGET
        assert stats.recorded == 2 * len(expected)
        assert session.wait(BUILD_TIMEOUT_S)
        stats = session.stats()
        # Each was in the cache once, with some megabytes, and one is there.
        assert stats.builds == len(expected), str(session.explain())
        assert stats.evictions >= len(expected) - 3, str(session.explain())
        assert 0 < stats.plan_bytes <= PLAN_BUDGET
        # One that was evicted is recorded, built and replayed anew.
        settle(session, lambda: _step(50_000))
        assert session.stats().replays > 0, str(session.explain())
        assert _step(50_000).item() == expected[0]


def test_traces_of_new_shapes_stay_within_the_budget() -> None:
    weight = torch.randn(8, 8)

    def new(rows: int) -> float:
        a = torch.ones(rows, 8)
        for _ in range(4):
            a = torch.relu(a @ weight) + 0.1
        return a.sum().item()

    with reprise.session(
        "cpu", policy="always", trace_budget_bytes=str(TRACE_BUDGET)
    ) as session:
        session.reset()
        settle(session, lambda: _step(1000))
        settled = session.stats()
        assert settled.replays > 0, str(session.explain())
        # Each comes twice: it is recorded, and forgotten unless it comes again.
        for rows in range(100, 1100):
            assert new(rows) == new(rows)
            if rows % 50 == 0:
                assert session.stats().trace_bytes <= TRACE_BUDGET
        stats = session.stats()
        assert stats.signatures >= settled.signatures + 1000
        assert stats.recorded > settled.recorded + 900
        assert stats.forgotten > 500
        assert stats.trace_bytes > TRACE_BUDGET // 2
        # What has a plan is replayed at once.
        _step(1000)
        assert session.stats().replays == stats.replays + 1, str(session.explain())
        assert len(session.explain().to_dict()["plans"]) < 500
