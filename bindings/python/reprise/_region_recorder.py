"""Records calls of a region's callable, and learns from them what can be learned."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from reprise._call_form import AN_ARGUMENT, Loose, form_of, what_changed
from reprise._call_watch import CallWatch
from reprise._enums import Verdict
from reprise._hidden_state import unguarded
from reprise._open_recording import Learned
from reprise._recorded_call import (
    Call,
    ChangedArgument,
    NoWatch,
    RecordedCall,
    Refusal,
)
from reprise._recording import recording
from reprise._region_learning import (
    ARGUMENT,
    CHANGES,
    FOLLOWS,
    NODES,
    Learning,
)
from reprise._region_looks import Looks
from reprise._region_objects import Objects
from reprise._region_session import OwnSession
from reprise._region_standing import Standing
from reprise._region_structures import Structures
from reprise.guards import tree
from reprise.guards.contents import Contents
from reprise.guards.reading import Reading
from reprise.nodes.again import calling_again
from reprise.nodes.conditions import Unknown, check_arguments, share_memory
from reprise.nodes.differentiable import Differentiable
from reprise.nodes.node import watch

_READ_WITHIN = (
    "it sets what others may read, and calls functions that run each time, or operators of "
    "others"
)
_LOCK = "it leads to {}, a lock, which no replay would take (take it around the region)"


class Recorder:
    """Runs a region's callable where no tape answers, and has that written down.

    What a call shows beside operators (a clock, an object that it changes) keeps it from
    being learned. Thread-safe: one call is recorded at a time in a process, and others
    just run.
    """

    def __init__(
        self,
        region: object,
        fn: Callable[..., Any],
        check: str,
        *,
        guarded: bool,
        has_given: bool,
        reads: Reading,
        looks: Looks,
        objects: Objects[Any],
        structures: Structures,
        standing: Standing,
        session: OwnSession,
        loose: Loose,
    ) -> None:
        """The region, which is not kept alive, and its parts.

        `guarded`, and `has_given`: of `given`: see `Region`.
        """
        self._region = weakref.ref(region)
        self._fn = fn
        self._check = check
        self._guarded = guarded
        self._has_given = has_given
        self._reads = reads
        self._looks = looks
        self._objects = objects
        self._structures = structures
        self._standing = standing
        self._loose = loose
        self._session = session
        self._learning = Learning(reads, standing)

    def record(self, call: Call) -> Any:
        """Return the result of the callable, which runs."""
        walk = self._reads.walk
        assert walk is not None
        self._loose.learn(call.form)
        odd, is_hopeless = self._reads.note_constants(call.before)
        if odd:
            self._learning.note_anew(odd)
            self._standing.off |= is_hopeless
        if is_hopeless:
            return self._fn(*call.parts.args, **call.parts.kwargs)
        learns = self._reads.learn_enums(call.before)
        recorded = None if learns else self._begun(call)
        if recorded is None:
            return self._fn(*call.parts.args, **call.parts.kwargs)
        try:
            containers = call.parts.containers
            objects = bool(call.parts.objects) or self._has_given
            objects |= containers is not None and containers.have_objects()
            result = recorded.run(self._fn, walk, objects)
            if call.before.written:
                self._reads.have_been_set()
            if self._has_changed(call):
                return result
            try:
                call.structure.asks_for_class |= recorded.watch.asks_for_class
                recorded.check_modes()
                if recorded.watch.sets_within:
                    raise Refusal(_READ_WITHIN)
                if self._took_hidden(call, recorded.watch):
                    return result
                if isinstance(recorded.watch, CallWatch):
                    self._reads.learn_code(call.state, recorded.watch.ran)
                    self._looks.note_refusal()
                form = recorded.form_of(result)
                learned = recorded.end()
            except ChangedArgument as change:
                self._learning.note_changed(str(change), ARGUMENT)
                return result
            except Refusal as refusal:
                self._learning.refuse(recorded.of, str(refusal))
                return result
        finally:
            recorded.abandon()
        return self._learn(call, recorded, form, learned, result)

    def _begun(self, call: Call) -> RecordedCall | None:
        """None: the call is not to be recorded."""
        of, own = call.of, call.state.tensors()
        if share_memory(itertools.product(call.tensors, own)):
            self._standing.note(
                "an argument, or what it has set, is memory that it reads from outside, too"
            )
            if call.given is not None:
                self._objects.forget(call.given)
            return None
        if isinstance(of, Differentiable):
            try:
                check_arguments(call.tensors)
            except Unknown as unknown:
                self._learning.refuse(of, f"{NODES}: {unknown}")
                of = call.structure
        containers, contents = call.parts.containers, None
        if containers is not None:
            contents = Contents(call.parts, containers)
        looks = self._watch_of(call, own, contents)
        if looks is None:
            return None
        recorded = RecordedCall(call, of, own, looks, contents)
        assert self._reads.walk is not None
        if not recorded.begin(self._reads.walk):
            self._standing.note("another region is being recorded")
            return None
        return recorded

    def _watch_of(
        self, call: Call, own: Iterable[torch.Tensor], contents: Contents | None
    ) -> CallWatch | NoWatch | None:
        """What looks at a recorded call. None: the callable is not to be recorded.

        `own`: tensors that the callable reads from outside.
        """
        reached = self._reads.walk
        # What it reads is somebody else's business.
        if self._guarded or reached is None:
            return NoWatch()
        why = unguarded(reached.led)
        if why is not None:
            call.structure.off = True
            self._standing.note(why)
            return None

        def changed() -> str | None:
            given = call.given
            found = call.state.difference(call.before.come())
            found = found or (given.changed() if given is not None else None)
            if contents is not None and contents.have_changed():
                return found or AN_ARGUMENT
            return found

        return CallWatch(
            RecordedCall.run.__code__,
            reached.led,
            call.structure.suspects,
            reached.names(),
            call.numbers,
            known={*self._reads.ran.code, *reached.codes()},
            changed=changed,
            given=set(map(id, (*call.tensors, *call.parts.objects))),
            own=set(map(id, own)),
        )

    # --- Behind the call ---

    def _has_changed(self, call: Call) -> bool:
        """The callable has changed what it reads, so that the call is not learned."""
        reads, state, given = self._reads, call.state, call.given
        reads.ran.left_out |= state.leave_out()
        walk = reads.walk  # None: the call has let go of everything
        optimizers = walk.optimizers if walk is not None else ()
        changed = state.difference(call.before.come())
        if changed is None:
            changed = what_changed(
                *(call.form, call.numbers, call.parts, optimizers, call.loose)
            )
            if changed == AN_ARGUMENT:
                return self._follow(changed)
        if changed is None and state.written is not call.before.written:
            changed = "a list or dictionary of which it sets items"
        if changed is not None:
            if (found := reads.learn_written(state)) is None:
                self._learning.note_set(changed)
            else:
                self._learning.note_changed(found.name or changed, found.remedy)
            return True
        if given is None or (changed := given.changed()) is None:
            return False
        given.changes += 1
        call.structure.note_changed(changed, is_first=given.changes == 1)
        # A cache that is made in its first call is the same in all others, as a rule: of
        # what stays, less is looked at in each call where it is not followed.
        report, following = self._standing.report, self._standing.following
        if not following.is_on and (
            given.changes > 1 or (call.structure.off and not report.replayed)
        ):
            return self._follow(changed)
        self._standing.note(CHANGES.format(changed))
        return True

    def _follow(self, changed: str) -> bool:
        """The callable has changed an argument. From now on such changes are followed."""
        following = self._standing.following
        if following.begin():
            self._standing.note(FOLLOWS.format(changed))
        else:
            self._learning.note_changed(changed, following.why_not or ARGUMENT)
        return True

    def _took_hidden(self, call: Call, looks: CallWatch | NoWatch) -> bool:
        """The call has taken what replays would not: it is not learned."""
        if not isinstance(looks, CallWatch):
            return False
        structure, hidden, handlers = call.structure, looks.hidden, looks.handlers
        structure.suspects |= hidden.end()
        structure.note_hidden(bool(hidden.reason))
        if hidden.reason:
            self._standing.note(hidden.reason, hidden.place)
            return True
        if self._structures.learn_variables(hidden.values):
            return True
        if handlers.reason:  # the `with` of a lock, perhaps
            locks = self._locks_of(call)
            why = _LOCK.format(locks[0]) if locks else handlers.reason
            self._learning.refuse(structure, why, handlers.place)
        return bool(handlers.reason)

    def _learn(
        self,
        call: Call,
        recorded: RecordedCall,
        form: tree.Form,
        learned: Learned,
        result: Any,
    ) -> Any:
        """Return the result, with a history of the region's own where it has one."""
        structure, of, passes = call.structure, recorded.of, recorded.passes
        self._standing.report.recorded += 1
        sets = call.before.written or recorded.sets_arguments
        if sets and learned.calls_others:
            self._learning.refuse(of, _READ_WITHIN)
            of.off = True
            return result
        if (lock := self._lock_of(call, learned, bool(sets))) is not None:
            self._learning.refuse(of, _LOCK.format(lock))
            of.off = True
            return result
        if learned.calls:
            self._standing.report.operators = learned.calls
            self._standing.report.reads = learned.reads
        refused = learned.verdict == Verdict.REFUSED
        if learned.no_node or refused:
            why = learned.no_node or learned.reason
            structure.no_node = structure.no_node or why
        if learned.no_node:
            self._standing.note(f"{NODES}: {learned.no_node}")
        if structure.passes is None and not structure.no_node:
            self._watch_backward(call, recorded)
        if passes is not None and refused:
            learned = learned._replace(reason=f"{NODES}: {learned.reason}")
        self._learning.learn(of, learned, form)
        if passes is None or learned.tape not in of.builders or of.off:
            return result
        results = passes.results(
            learned.tape, learned.draws, learned.saved, learned.written
        )
        if results is None:
            self._learning.refuse(of, f"{NODES}: another history")
            return result
        return of.builders[learned.tape][1](iter(results), call.parts)

    def _lock_of(self, call: Call, learned: Learned, sets: bool) -> str | None:
        """A lock that may guard what the call writes. None: there is none.

        Whether it is taken nobody tells: a `with` is no call that can be seen.
        """
        writes = learned.writes_outside or learned.calls_others or sets
        locks = self._locks_of(call) if writes else []
        return locks[0] if locks else None

    def _locks_of(self, call: Call) -> list[str]:
        """Return the locks that the program's code or arguments hold: what it calls them."""
        walk, given = self._reads.walk, call.given
        return [
            *call.state.locks,
            *(walk.locks if walk is not None else ()),
            *(given.state().locks if given is not None else ()),
        ]

    def _watch_backward(self, call: Call, recorded: RecordedCall) -> None:
        """From its first backward pass on, such calls are forward passes of one node."""
        parts = call.parts
        if call.numbers or parts.objects or parts.leading or call.before.written:
            return
        if parts.containers is not None and parts.containers.values:
            return  # tensors in these come in an order of their own
        form = form_of(call.parts.args, call.parts.kwargs, tree.Parts())
        # Whoever holds what refers to the program's tensors holds the region, too, which is told
        # before tensors are swapped.
        make = functools.partial(self._passes, form, self._region())
        watch(
            recorded.outputs, functools.partial(call.structure.note_backward, make=make)
        )

    def _passes(self, form: tree.Form, region: object) -> Differentiable:
        reads = self._reads

        @contextlib.contextmanager
        def apart() -> Iterator[None]:
            with recording(), reads.keeping():
                yield

        again = calling_again(self._fn, form, apart)
        return Differentiable(
            self._check,
            again,
            self._session.block,
            self._learning.learn_backward,
            region,
        )
