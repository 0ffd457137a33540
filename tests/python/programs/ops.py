"""What a line of a random program may be.

A variable's first letter is its kind, so that any line can follow any other:

- `a` `h` (rows, width) of float32 and of a half type, `o` twice as wide, `e` (width,
  width), `v` (width), `r` (rows, 1), `i` (rows) of indices, `k` (rows, width) of bool
- `u` `p` `q` as `a` `o` `v`, but only ever written by `out=`: nothing aliases them
- `w` `g` `t` weights: (width, width), (width), a table; `w9` is never written
- `x` inputs: `x0` `x1` as `a`, `x2` as `i`
- `y` as `a`, for the side stream
- `z` as `a`: `z0` and `z1` overlap, `z2` may be a view of anything

The events at the end are no ops, or unusual ones: what happens between two ops.
"""

from __future__ import annotations

LOCALS = {"a": 6, "h": 2, "v": 2, "r": 1, "i": 1, "k": 1, "o": 1, "e": 1}

# {A} is a local to be set, {a} a value, {a!} a local that is written or aliased, {b} as
# {a} but not `u0`; {c} a number, {w} a matrix, {g} a gain; {n} the name of an {a!}.
# Each is chosen anew.
# Sizes: %(b)d rows, %(d)d wide.
POINTWISE = """
{A} = torch.tanh({a})
{A} = torch.sin({a})
{A} = torch.sigmoid({a})
{A} = F.gelu({a})
{A} = F.silu({a})
{A} = torch.relu({a})
{A} = {a}.abs()
{A} = {a} * {c}
{A} = {a} + {c}
{A} = torch.lerp({a}, {a}, {c})
{A} = torch.maximum({a}, {a})
{A} = torch.sin({a} * {a})
{A} = ({a} - {a}).mul_(0.5)
{A} = torch.tanh({a} + {v})
{A} = torch.tanh({a} * {g})
{A} = torch.tanh({a} - {r})
{A} = torch.where({k}, {a}, {a})
{A} = ({a} * {c} + {a} * {c}).clamp_(-2, 2)
{A} = torch.stack([{a}, {a}, {a}]).mean(0)
{H} = torch.tanh({h})
{H} = torch.lerp({h}, {h}, {c})
{V} = torch.tanh({v} + {g})
{R} = torch.sigmoid({r})
{K} = {a} > {c}
{K} = {k} ^ ({a} < {c})
{O} = torch.tanh({o})
""".strip().splitlines()
IN_PLACE = """
{a!}.tanh_()
{a!}.mul_({c})
{a!}.lerp_({a}, {c})
{a!}.clamp_(-1.5, 1.5)
{a!}.mul_(0.5).add_({a}, alpha=0.5)
{a!}.sub_({v}).clamp_(-2, 2)
{a!}.masked_fill_({k}, {c})
{a!}[:, ::2].mul_({c})
{a!}[1].copy_({v})
{a!}[1:] = {a}[:-1] * {c}
{a!}.t().mul_({c})
{a!}.zero_()
{a!}.fill_({c})
{a!}.copy_({a})
{h!}.mul_({c})
{o!}.sin_()
{v!}.mul_(0.5).add_({g}, alpha={c})
{r!}.neg_()
{i!}.add_(7).remainder_(72)
{k!}.logical_not_()
{e!}.mul_({c})
""".strip().splitlines()
VIEWS = """
{A} = {a!}[:]
{A} = {a!}.view_as({a})
{A} = {o!}[:, :%(d)d]
{A} = {e!}[:%(b)d]
{A}, {A} = {o!}.chunk(2, 1)
{A} = {a}.t().contiguous().t()
{A} = {o}[:, ::2].clone()
{A} = {o}[:, %(d)d:].contiguous()
{A} = {a}.reshape(%(d)d, %(b)d).t().contiguous()
{V} = {v!}.view(1, %(d)d)[0]
{A} = {v}.expand(%(b)d, %(d)d).contiguous()
""".strip().splitlines()
REDUCTIONS = """
{V} = {a}.mean(0)
{V} = {a}.amax(0)
{V} = torch.sum({a}, 0).mul_(0.1)
{R} = {a}.mean(1, keepdim=True)
{R} = torch.sigmoid({a}.norm(dim=1, keepdim=True))
{R} = {a}.var(1, keepdim=True).clamp_(max=2)
{V} = {a}.double().mean(0).float()
{A} = {a} - {a}.amax(1, keepdim=True)
{A} = torch.sort({a}, 1).values
{A} = {a}.cumsum(1).tanh_()
{R} = {h}.float().mean(1, keepdim=True)
""".strip().splitlines()
MATRICES = """
{A} = torch.mm({a}, {w})
{A} = F.linear({a}, {w}, {v})
{A} = torch.tanh(torch.addmm({v}, {a}, {w}))
{A} = torch.tanh({a} @ {w}.t())
{E} = torch.tanh(torch.mm({a}.t(), {a}))
{A} = torch.tanh(torch.mm({a}, {e}))
{A} = torch.softmax({a} @ {a}.t(), 1) @ {a}
{H} = torch.tanh({h} @ {w}.to({h}.dtype))
{V} = torch.tanh(torch.mv({w}, {v}))
{H} = F.scaled_dot_product_attention({h}[None, None], {h}[None, None], {h}[None, None])[0, 0]
""".strip().splitlines()
NORMS = """
{A} = torch.softmax({a}, 1)
{A} = torch.softmax({a}, 0)
{A} = F.log_softmax({a}, -1).mul_(0.2)
{A} = F.layer_norm({a}, (%(d)d,), {g}, {v})
{A} = F.layer_norm({a}, (%(d)d,))
{A} = F.rms_norm({a}, (%(d)d,), {g})
{H} = torch.softmax({h}, 1)
""".strip().splitlines()
CATS = """
{O} = torch.cat([{a}, {a}], 1)
{A} = F.glu({o})
{A} = torch.cat([{a}[1:], {a}[:1]])
{A} = torch.cat([{h}, {h}], 1)[:, ::2].float()
""".strip().splitlines()
INDICES = """
{A} = F.embedding(s.x2, s.t0)[:, :%(d)d]
{A} = F.embedding({i}, s.t0)[:, :%(d)d].contiguous()
{A} = s.t0[s.x2][:, :%(d)d] + {a}
{A} = torch.index_select({a}, 0, {i} %% %(b)d)
{A} = torch.gather({a}, 1, ({i} %% %(d)d).unsqueeze(1).expand(%(b)d, %(d)d))
{I} = {a}.argmax(1)
{I} = ({i} + s.x2) %% 72
{I} = torch.arange(%(b)d, device=s.device)
{R} = {i}.unsqueeze(1).float() * 0.01
""".strip().splitlines()
OUTS = """
torch.tanh({a}, out={a!})
torch.lerp({a}, {a}, {c}, out={a!})
torch.sigmoid({h}, out={h!})
{A} = torch.empty_like({a}); torch.cos({a}, out={A})
{A} = torch.empty(%(b)d, %(d)d, device=s.device); {A}.copy_({a})
{A} = torch.empty(%(b)d, %(d)d, device=s.device); torch.mm({a}, {w}, out={A})
{A} = torch.full((%(b)d, %(d)d), {c}, device=s.device)
{A} = torch.zeros_like({a}) + {a}
{A} = torch.sin(s.u0)
{O} = s.p0 * {c}
{V} = s.q0 + {v} * 0.5
""".strip().splitlines()
# Into what the program keeps: each of these is a cut.
KEPT_OUTS = """
torch.lerp({a}, {a}, {c}, out=s.u0)
torch.mm({b}, {w}, out=s.u0)
torch.cat([{a}, {a}], 1, out=s.p0)
torch.mean({a}, 0, out=s.q0)
""".strip().splitlines()
CASTS = """
{H} = {a}.to({h}.dtype)
{A} = {h}.float()
{a!}.copy_({h})
{h!}.copy_({a})
{A} = {k}.float()
{A} = ({a} * 100).to(torch.int32).remainder_(9).float() * 0.1
{A} = {h} * {a}
""".strip().splitlines()
DRAWS = """
{A} = torch.rand_like({a})
{A} = F.dropout({a}, 0.3, True)
{a!}.uniform_(-1, 1)
{A} = torch.randn(%(b)d, %(d)d, device=s.device)
{A} = torch.bernoulli(torch.sigmoid({a}))
{I} = torch.randint(72, (%(b)d,), device=s.device)
{V} = torch.randperm(%(d)d, device=s.device) / %(d)d
{A} = F.dropout(s.forked(lambda: torch.rand_like({a})), 0.5, True)
{A} = s.drawn_again(lambda: F.dropout({a}, 0.3, True))
""".strip().splitlines()
SEEDS = ["s.seed('again')", "s.seed('anew')"]
HOST = """
s.say({a}.sum().item())
s.say({a}[1].tolist())
s.say(bool({k}.any()))
s.say(torch.equal({a}, {a}))
s.say(torch.nonzero({k}).shape)
s.say({h}.cpu().float().sum().item())
{A} = torch.sin({a}) if {a}[0, 0].item() > 0 else {a} * {c}
{A} = torch.tensor([[0.5], [{c}]], device=s.device).repeat(%(d)d * %(b)d // 2, 1).view(%(b)d, %(d)d)
{a!}.data_ptr()
""".strip().splitlines()
# A side stream's work; until it is joined it has its values for itself.
FORK = """
s.join(); s.y0 = {a} * {c}; s.lend(s.y0)
s.join(); s.y0 = torch.tanh({a})
""".strip().splitlines()
JOIN = "s.join(); {A} = s.y2 * {c}"
SIDE = [
    f"with s.side():\n    {line}"
    for line in """
s.y1 = torch.tanh(torch.mm(s.y0, s.w9))
s.y1 = torch.softmax(s.y0, 1); s.y1.mul_({c})
s.y2 = torch.sin(s.y1) + s.y0
s.y2 = torch.cat([s.y1, s.y0])[::2].contiguous()
""".strip().splitlines()
]
TRAIN = """
with torch.enable_grad():
    s.w8 = s.w0.detach().requires_grad_()
    torch.tanh(F.linear({a}, s.w8)).square().mean().backward()
    s.w8 = s.w8.grad
s.w0.sub_(s.w8, alpha=0.1)
""".strip()
EDITS = """
{w}.mul_(0.99)
{w}.lerp_({w}, 0.3)
torch._foreach_mul_([s.w0, s.w1, s.w2], 0.95)
s.g0.sub_(s.g1, alpha=0.02)
s.t0.clamp_(-1.5, 1.5).mul_(0.98)
""".strip().splitlines()

# Reads of views that were made before the pass, and writes that raise where they overlap.
LATE = """
{A} = torch.tanh(s.z0 + s.z1)
{A} = {a} - s.z2 * {c}
{A} = torch.lerp(s.z2, {a}, {c})
{o!}[:, :%(d)d].clamp_(-2, 2).lerp_(s.apart(s.z2, {o!}[:, :%(d)d]), {c})
s.attempt(lambda: {o!}[:, 1 : %(d)d + 1].lerp_(s.apart(s.z2, {o!}[:, 1 : %(d)d + 1]), {c}))
s.attempt(lambda: {a!}[1:].lerp_(s.apart(s.z2[:-1], {a!}[1:]), {c}))
s.attempt(lambda: torch.lerp({a}, s.z2, {c}, out={a!}))
s.attempt(lambda: {e!}[1 : %(b)d + 1].lerp_(s.z2, {c}))
""".strip().splitlines()
# What is made in the pass says whether it raises.
TRAPS = """
{A} = s.attempt_on_host(lambda: F.embedding({i}, s.t0[:70])[:, :%(d)d], {a})
{A} = s.attempt_on_host(lambda: s.t0[:71][{i}][:, :%(d)d], {a})
{A} = s.attempt_on_host(lambda: torch.index_select(s.t0[:71], 0, {i})[:, :%(d)d], {a})
{A} = s.attempt_on_host(lambda: F.binary_cross_entropy({a} * 0.5 + 0.5, {k}.float(), reduction="none").clamp(max=2), {a})
""".strip().splitlines()

# --- Events -----------------------------------------------------------------------

WRITES = [
    f's.write({target}, {{c}}, "{way}")'
    for target in ("{a!}", "{a!}", "{w}", "s.x0", "{v!}", "{o!}", "s.z0", "s.x9")
    for way in ("address", "storage", "array", "dlpack")
]
ACROSS = [
    f'with s.across("{there}", "{back}"):\n    {line}'
    for line in """
{w}.mul_(0.99)
s.t0.clamp_(-1.5, 1.5).mul_(0.98)
{a!}.mul_({c})
s.y2 = torch.mm({a}, s.w9)
{A} = torch.tanh({a})
{A} = {a!}[:]; {a!}.tanh_()
torch.lerp({a}, {a}, {c}, out=s.u0)
s.x0.mul_(0.9)
""".strip().splitlines()
    for there in ("event", "stream", "host", "host event")
    for back in ("event", "stream", "host", "host event", "query")
]
FREES = """
s.clear_workspaces()
s.empty_cache()
s.clear_workspaces(); s.empty_cache()
""".strip().splitlines()
REPLACEMENTS = [
    f's.replace("{name}", {{c}}, "{way}")'
    for name in ("{n}", "x0", "x0", "x1", "x1", "w0", "z2")
    for way in ("op", "array", "array", "array", "aside", "viewed")
]
OVERLAPS = """
s.overlap({o!}[:, :%(d)d])
s.overlap({o!}[:, 1 : %(d)d + 1])
s.overlap({e!}[:%(b)d])
s.overlap({a!})
s.overlap({a!}[:])
s.overlap(torch.from_dlpack({a!}))
s.overlap(s.x0)
s.overlap(s.z1)
s.overlap({a} * {c})
s.z2.mul_({c})
s.z0.mul_(0.9)
s.z1.lerp_(s.z0.clone(), 0.3)
s.x9.mul_(0.9)
""".strip().splitlines()
RAISES = """
s.raises(lambda: torch.mm(s.a0, torch.empty(%(b)d, 2, device=s.device)))
s.raises(lambda: {a!}.add_(s.g0[1:]))
s.raises(lambda: torch._foreach_mul_([{a!}, {a!}], [{a}, s.g0[1:]]))
s.raises(lambda: torch.cat([{a}, {r}]))
s.raises(lambda: torch.add({a}, {a}, out={i!}))
s.raises(lambda: {a}[%(b)d])
s.raises(lambda: {a!}.view(-1, 7 * %(d)d))
s.raises_on_host(lambda: F.embedding({i} + 72, s.t0))
s.raises_on_host(lambda: {a!}.index_add_(0, {i} + 72, {a}))
s.raises_on_host(lambda: {a!}.index_put_(({i} + 72,), {a}))
s.raises_on_host(lambda: torch._assert_async({k}.all() & {k}.logical_not().all()))
""".strip().splitlines()
# Until `s.on()`.
SWITCHES = """
s.off()
s.off(); {w}.mul_(0.9)
s.off(); s.x0.mul_(0.9)
s.off(); {a!}.mul_({c})
s.enable(max_trace_ops=16)
s.enable(max_trace_ops=16); {a!}.mul_({c})
s.enable(max_instances=1, validate_share=0.3)
""".strip().splitlines()
RESETS = ["s.forget()"]
BESIDE = """
s.meanwhile("reset")
s.meanwhile("disable")
s.meanwhile("disable"); {w}.mul_(0.9)
s.meanwhile("options")
s.meanwhile("wait")
""".strip().splitlines()

EVENTS = (
    (8, WRITES),
    (4, ACROSS),
    (1, FREES),
    (6, REPLACEMENTS),
    (8, OVERLAPS),
    (5, RAISES),
    (4, SWITCHES),
    (1, RESETS),
    (4, BESIDE),
)

UNCUT = (REPLACEMENTS, OVERLAPS)  # what a pass may have each time and be replayed

FAMILIES = (
    (26, POINTWISE),
    (16, IN_PLACE),
    (8, VIEWS),
    (9, REDUCTIONS),
    (10, MATRICES),
    (6, NORMS),
    (6, CATS),
    (6, INDICES),
    (6, OUTS),
    (1, KEPT_OUTS),
    (5, CASTS),
    (1, LATE),
    (1, TRAPS),
)
