"""Draws programs at random: passes that mostly repeat, and what disturbs them.

The lines that they are made of are in ops.py. Values stay small: what grows is
followed by what does not.
"""

from __future__ import annotations

import contextlib
import random
import re
from collections.abc import Sequence

from programs import ops
from programs.interference import HAZARDS, Hazard
from programs.program import Program

INPUTS = 8  # sets of them, made beforehand
TABLE = 72  # rows; no width is larger, so that a column is a row of it, too

# Sessions differ in these; small budgets evict, short traces part anywhere.
OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"validate_share": 0.2},
    {"plan_budget_bytes": "480KiB"},
    {"plan_budget_bytes": "1MiB"},  # recordings and a graph's nodes count, too
    {"max_instances": 4, "plan_budget_bytes": "1MiB"},
    {"max_trace_ops": 24, "max_instances": 1},
    {"policy": "measured", "margin": 0.0},  # trials go both ways
    {"policy": "measured", "margin": 0.0, "validate_share": 0.2},
)
_DELAYED = {"build_delays": 3}  # for programs that wait for no build

_WEIGHTS = [weight for weight, _ in ops.FAMILIES]
_EVENT_WEIGHTS = [weight for weight, _ in ops.EVENTS]
_WAITS = ("s.wait()", "s.synchronize()", "s.empty_cache()", "s.forget()")
_LOOKS = ("s.look()", "s.look_aside()", "s.look_aside()", "s.look_on_host()")
_TOKEN = re.compile(r"\{(\w)(!?)\}")
_NAME = re.compile(r"\b[a-z]\d\b")
_NUMBER = re.compile(r"(?<![\w.])-?0\.\d\d\d\b")


class _Generator:
    def __init__(self, seed: int, passes: int, hazards: Sequence[str]) -> None:
        self._random = random.Random(seed)
        self._seed = seed
        self._passes = passes
        r = self._random
        self._rows = r.choice((4, 8, 12, 16))
        self._width = r.choice((24, 32, 48, 64))
        self._half = r.choice(("torch.float16", "torch.bfloat16"))
        self._draws = r.choice((0, 0, 0, 0.01, 0.04))
        # How much of the bodies cuts them.
        self._hosts = r.choice((0, 0, 0, 0, 0.01, 0.03))
        self._sides = r.random() < 0.2
        # Calm programs repeat one pass that is replayed as a whole, so that what
        # happens between its ops meets a replay.
        self._calm = r.random() < 0.4
        self._events = r.choice((0.0, 0.05, 0.2))
        if self._calm:
            self._hosts, self._sides = 0, False
            self._events = r.choice((0.05, 0.15))
        self._set: list[str] = []
        self._hazards = [HAZARDS[name] for name in hazards]
        if self._hazards:
            self._prefer_calm()

    def _prefer_calm(self) -> None:
        """Most programs with a hazard are replayed when it sets in."""
        r = self._random
        self._calm = r.random() < 0.9
        if self._calm:
            self._hosts, self._sides = 0, False
            self._draws = r.choice((0, 0, 0.02))
            self._events = r.choice((0.0, 0.0, 0.05))

    # --- Lines --------------------------------------------------------------------

    def _local(self, kind: str) -> str:
        return f"{kind}{self._random.randrange(ops.LOCALS[kind])}"

    def _value(self, kind: str) -> str:
        """What the pass has made, as a rule."""
        r = self._random
        made = [name for name in self._set[-12:] if name[0] == kind]
        dice = r.random()
        if made and dice < 0.8:
            return r.choice(made)
        if kind == "a":
            return r.choice(("x0", "x1", "x0", "u0", "a0", "a1"))
        return self._local(kind)

    def _written(self, kind: str) -> str:
        """A local to be written in place: what the pass has made, as a rule.

        Another one is a write to memory that no trace made, which cuts.
        """
        made = [name for name in self._set[-12:] if name[0] == kind]
        if made:
            return self._random.choice(made)
        if self._calm or self._random.random() < 0.9:
            raise LookupError(kind)
        return self._local(kind)

    def _line(self, template: str) -> str:
        r = self._random
        sets: list[str] = []
        own = ""  # of a line that sets a local and then writes it

        def fill(match: re.Match[str]) -> str:
            kind, in_place = match.groups()
            if kind == "c":
                return f"{r.choice((-1, 1, 1)) * (0.1 + 0.85 * r.random()):.3f}"
            if kind == "w":
                return f"s.w{r.randrange(3)}"
            if kind == "g":
                return f"s.g{r.randrange(2)}"
            if kind == "b":  # a value that nothing writes by out=
                return f"s.{self._value('a').replace('u0', 'x0')}"
            if kind == "n":
                return self._written("a")
            if in_place:
                return f"s.{self._written(kind)}"
            if kind.isupper():
                sets.append(own or self._local(kind.lower()))
                return f"s.{sets[-1]}"
            value = self._value(kind)
            return "s.x1" if value == own else f"s.{value}"

        sized = template % {"b": self._rows, "d": self._width}
        if sized.count("{A}") > 1 and "; " in sized:
            own = self._local("a")
        text = _TOKEN.sub(fill, sized)
        self._set += sets
        return text

    def _try_line(self, templates: list[str]) -> str:
        while True:
            with contextlib.suppress(LookupError):
                return self._line(self._random.choice(templates))

    def _any_line(self) -> str:
        r = self._random
        dice = r.random()
        if dice < self._draws:
            return self._try_line(r.choice((ops.DRAWS,) * 5 + (ops.SEEDS,)))
        if dice < self._draws + self._hosts:
            return self._try_line(ops.HOST)
        family = r.choices(ops.FAMILIES, _WEIGHTS)[0][1]
        if self._calm and family in (ops.KEPT_OUTS, ops.TRAPS):
            family = ops.LATE
        return self._try_line(family)

    def _body(self, beginning: list[str]) -> list[str]:
        r = self._random
        lines = beginning or [self._line("s.a0 = torch.mm(s.x0, {w})")]
        self._set = ["a0", *self._set[-3:]]
        lines = lines + [self._any_line() for _ in range(r.randint(6, 34))]
        if self._sides:
            at = r.randint(1, len(lines))
            between = [self._any_line() for _ in range(r.randint(0, 5))]
            work = [self._line(t) for t in r.sample(ops.SIDE, 3)]
            lines[at:at] = [
                self._line(r.choice(ops.FORK)),
                *work,
                *between,
                self._line(ops.JOIN),
            ]
        if r.random() < 0.3:
            for _ in range(r.randint(1, 3)):
                lines.insert(r.randint(1, len(lines)), self._try_line(ops.LATE))
        if not self._calm and r.random() < 0.12:
            lines.insert(r.randint(1, len(lines)), self._line(ops.TRAIN))
        if self._events and r.random() < 0.2:
            lines = self._happen(lines, r.choice(ops.UNCUT) if self._calm else None)
        for hazard in self._hazards:
            lines = self._interfere(lines, hazard)
        return lines

    def _interfere(self, lines: list[str], hazard: Hazard) -> list[str]:
        """A body's lines with those of a group of a hazard among them, in their order."""
        r = self._random
        group = [self._line(template) for template in r.choice(hazard.groups)]
        places = sorted(r.randint(1, len(lines)) for _ in group)
        if hazard.first:
            places[0] = 0
        for place, line in zip(reversed(places), reversed(group), strict=True):
            lines = [*lines[:place], line, *lines[place:]]
        return lines

    # --- Setup --------------------------------------------------------------------

    def _setup(self) -> list[str]:
        b, d = self._rows, self._width
        device = "device=s.device"
        lines = [
            f"s.w{n} = torch.randn({d}, {d}, {device}) * {0.6 / d**0.5:.4f}"
            for n in (0, 1, 2, 8, 9)
        ]
        lines += [f"s.g{n} = torch.randn({d}, {device})" for n in range(2)]
        lines.append(f"s.t0 = torch.randn({TABLE}, 64, {device})")
        lines.append(
            f"s.inputs = [torch.randn({b}, {d}, {device}) for _ in range({INPUTS})]"
        )
        lines.append(
            f"s.indices = [torch.randint({TABLE}, ({b},), {device}) "
            f"for _ in range({INPUTS})]"
        )
        lines.append(f"s.hosts = [torch.randn({b}, {d}) for _ in range({INPUTS})]")
        lines.append("s.arrays = [host.numpy() for host in s.hosts]")
        lines.append(f"s.x9 = torch.randn({b * d + d}, {device})")
        lines.append(f"s.x8 = torch.randn({b * d + 512}, {device})")
        lines.append("s.x0, s.x1 = s.inputs[0].clone(), s.inputs[1].clone()")
        lines.append("s.x2 = s.indices[0]")
        shapes = {
            "a": f"torch.randn({b}, {d}, {device})",
            "h": f"torch.randn({b}, {d}, {device}).to({self._half})",
            "o": f"torch.randn({b}, {2 * d}, {device})",
            "e": f"torch.randn({d}, {d}, {device}) * {0.6 / d**0.5:.4f}",
            "v": f"torch.randn({d}, {device})",
            "r": f"torch.randn({b}, 1, {device})",
            "i": f"torch.randint({TABLE}, ({b},), {device})",
            "k": f"torch.randn({b}, {d}, {device}) > 0",
        }
        for kind, count in ops.LOCALS.items():
            lines += [f"s.{kind}{n} = {shapes[kind]}" for n in range(count)]
        for name, kind in (("u0", "a"), ("p0", "o"), ("q0", "v")):
            lines.append(f"s.{name} = {shapes[kind]}")
        lines += [f"s.y{n} = {shapes['a']}" for n in range(3)]
        for n, at in enumerate((0, d // 2, d)):
            lines.append(f"s.z{n} = s.x9[{at} : {at + b * d}].view({b}, {d})")
        if self._hazards:
            lines.append("s.begin_hazards()")
        setups = [line for hazard in self._hazards for line in hazard.setup]
        return lines + [line % {"b": b, "d": d} for line in dict.fromkeys(setups)]

    # --- Passes -------------------------------------------------------------------

    def make(self) -> Program:
        r = self._random
        setup = self._setup()
        bodies = [self._body([])]
        for _ in range(0 if self._calm else r.choice((0, 0, 1, 2))):
            first = bodies[0]
            shared = first[: r.randint(1, len(first))] if r.random() < 0.4 else []
            bodies.append(self._body(shared))
        self._bodies = bodies
        self._detours = [self._any_line() for _ in range(4)]
        self._input = r.choice(
            ("sets", "sets", "slices", "fresh", "upload", "static", "array", "array")
        )
        self._sets = r.choice((1, 2, INPUTS))
        self._moves = r.random() < 0.5  # whether z2 is elsewhere at each pass
        self._trouble = 0.0 if self._calm else r.choice((0.0, 0.08, 0.25))
        self._waits = r.choice(("early", "early", "random", "never"))
        self._keeps_locals = r.random() < 0.4
        made = [f"s.{n}" for n in dict.fromkeys(self._set)]
        held = min(len(made), r.choice((0, 1, 2, 6, 6)))
        self._held = [f"s.held += [{', '.join(r.sample(made, held))}]"] if held else []
        self._most_held = held * r.randint(1, 3)
        pattern = r.choice(
            ([0], [0], list(range(len(bodies))), [0, 0, len(bodies) - 1], None)
        )
        self._loop = sorted(r.sample(range(len(bodies[0]) + 1), 2))
        self._turns = (1,) if self._calm else r.choice(((1,), (1,), (2,), (1, 2, 3)))
        options = dict(r.choice(OPTIONS))
        if self._waits == "never" and r.random() < 0.5:
            options |= _DELAYED
        return Program(
            self._seed,
            options,
            r.random() < 0.25,
            setup,
            [
                self._pass(n, pattern[n % len(pattern)] if pattern else -1)
                for n in range(self._passes)
            ],
        )

    def _inputs(self) -> list[str]:
        r, size = self._random, self._rows * self._width
        n = r.randrange(self._sets)
        lines = [f"s.x2 = s.indices[{n}]"]
        match self._input:
            case "sets":
                lines.append(f"s.x0, s.x1 = s.inputs[{n}], s.inputs[{INPUTS - 1 - n}]")
            case "fresh":
                lines.append(f"s.x0 = s.inputs[{n}].clone()")
            case "upload":
                lines.append(f"s.x0 = s.hosts[{n}].to(s.device, copy=True)")
            case "static":
                lines.append(f"s.x0.copy_(s.inputs[{n}])")
            case "array":
                for name, at in (("x0", n), ("x1", INPUTS - 1 - n)):
                    array = f"torch.from_numpy(s.arrays[{at}].copy())"
                    lines.append(f"s.{name} = {array}.to(s.device)")
            case "slices":
                at = r.choice((0, 64, 256, 16, 4, 1, 0, 0))
                shape = f"{self._rows}, {self._width}"
                lines.append(f"s.x0 = s.x8[{at} : {at + size}].view({shape})")
        if self._moves:
            lines.append(f"s.z2 = s.inputs[{r.randrange(INPUTS)}]")
        return lines

    def _pass(self, number: int, body: int) -> list[str]:
        r = self._random
        chosen = self._bodies[body if body >= 0 else r.randrange(len(self._bodies))]
        lines = list(chosen)
        turns = r.choice(self._turns)
        if chosen is self._bodies[0] and turns > 1:
            begin, end = self._loop
            lines[begin:end] = lines[begin:end] * turns
        before = self._inputs()
        after = list(self._held)
        if number > 3 and r.random() < self._trouble:
            for _ in range(r.randint(1, 2)):
                before, lines = self._disturb(before, lines)
        if number > (12 if self._calm else 3) and r.random() < self._events:
            for _ in range(r.randint(1, 2)):
                lines = self._happen(lines)
            if r.random() < 0.7:  # before what is wrong is gone
                after.append("s.look_aside()")
        if r.random() < 0.15:
            before.insert(0, "s.on()")
        if r.random() < 0.1:
            after.append(f"s.held += [s.a{r.randrange(6)}, s.v{r.randrange(2)}]")
        if r.random() < 0.5:
            after.append(
                f"del s.held[:-{self._most_held}]" if self._held else "s.held.clear()"
            )
        if r.random() < 0.12:
            after.append(r.choice(_LOOKS))
        if not self._keeps_locals:
            after.append("s.clear()")
        early = self._waits == "early" and number < 16
        if early or (self._waits != "never" and r.random() < 0.2):
            after.append("s.wait()")
        return before + lines + after

    def _event(self, family: list[str], before: str, after: str) -> str:
        """A line that touches what was made before it or is used after it, as a rule."""
        kept = self._set
        if family is ops.OVERLAPS:
            late = [line for line in after.splitlines() if "s.z2" in line]
            after = "\n".join(late) or after
        used = set(_NAME.findall(after))
        made = [name for name in _NAME.findall(before) if name in used]
        self._set = made or kept
        for _ in range(8):
            event = self._try_line(family)
            if not used.isdisjoint(_NAME.findall(event)):
                break
        self._set = kept
        return event

    def _happen(self, lines: list[str], family: list[str] | None = None) -> list[str]:
        """A pass's lines with an event among them."""
        r = self._random
        family = family or r.choices(ops.EVENTS, _EVENT_WEIGHTS)[0][1]
        begin, end = sorted(r.randint(0, len(lines)) for _ in range(2))
        event = self._event(family, "\n".join(lines[:begin]), "\n".join(lines[begin:]))
        if family is ops.SWITCHES and r.random() < 0.8:
            end = begin if r.random() < 0.6 else end  # a replay would go on
            lines = [*lines[:end], "s.on()", *lines[end:]]
        if family is ops.RAISES and r.random() < 0.3:
            lines = lines[:begin]
        return [*lines[:begin], event, *lines[begin:]]

    def _disturb(
        self, before: list[str], lines: list[str]
    ) -> tuple[list[str], list[str]]:
        """What goes before a pass and its lines, with something else among them."""
        r, b, d = self._random, self._rows, self._width
        at = r.randrange(len(lines))
        match r.randrange(10):
            case 0 | 1:
                return before, lines[:at] + r.sample(self._detours, 2)
            case 2:
                other = f"{0.1 + 0.8 * r.random():.3f}"
                changed = _NUMBER.sub(other, lines[at])
                return before, [*lines[:at], changed, *lines[at + 1 :]]
            case 3:
                extra = self._try_line([*ops.DRAWS, *ops.HOST, *ops.IN_PLACE])
                return before, [*lines[:at], extra, *lines[at:]]
            case 4:
                scale = f"{0.6 / d**0.5:.4f}"
                new = f"torch.randn({d}, {d}, device=s.device) * {scale}"
                return [*before, f"s.w{r.randrange(3)} = {new}"], lines
            case 5 | 6:
                edit = self._line(r.choice(ops.EDITS))
                if r.random() < 0.5:
                    return [*before, edit], lines
                return before, [*lines[:at], edit, *lines[at:]]
            case 7:
                wrong = f"s.raises(lambda: torch.mm(s.a0, torch.empty({b}, 2, device=s.device)))"
                end = len(lines) if r.random() < 0.5 else at
                return before, [*lines[:at], wrong, *lines[at:end]]
            case 8:
                host = f"s.hosts[{r.randrange(INPUTS)}]"
                return [*before, f"s.x0 = {host}.to(s.device, copy=True)"], lines
            case _:
                event = r.choice((*_WAITS, *_LOOKS))
                return before, [*lines[:at], event, *lines[at:]]


def random_program(seed: int, passes: int, hazards: Sequence[str] = ()) -> Program:
    """The same for the same arguments.

    `hazards` are names in `interference.HAZARDS`; the program has lines of each.
    """
    return _Generator(seed, passes, hazards).make()
