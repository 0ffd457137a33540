"""Write the lists of operators that get a hook of their own, for one torch.

    python scripts/generate_hooks.py TORCH FOLDER

TORCH is the folder torch/ of an installed wheel. Reads the operator declarations that the
wheel packages with torchgen (which needs PyYAML) and its headers, and writes shard_*.cc and
shards.h to FOLDER. The build runs it: which operators there are, and their signatures,
differ between versions.

Everything else that hooks know of an operator comes from its schema at run time
(bindings/torch/runtime/op_policy.cc). An operator that is not listed here gets a boxed hook.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit("usage: generate_hooks.py TORCH FOLDER")
    # Torchgen is that of this torch, whatever else is installed; PyYAML is this Python's,
    # for torch's may be another Python.
    import yaml  # noqa: F401

    sys.path.insert(0, str(Path(sys.argv[1]).resolve().parent))

import torchgen
from torchgen.gen import ParsedYaml, parse_native_yaml
from torchgen.model import DispatchKey, NativeFunction

SHARDS = 16

KERNEL_KEYS = (
    DispatchKey.CPU,
    DispatchKey.CUDA,
    DispatchKey.CompositeExplicitAutograd,
    DispatchKey.CompositeExplicitAutogradNonFunctional,
)

# Not dense, of another device's library, or a copy that only a compiler asks for. A boxed hook
# does for them.
RARE = re.compile(
    r"sparse|mkldnn|quantize_per|fbgemm|miopen|nested|_mps|xnnpack|^_test|coo|csr|csc|bsr"
    r"|vulkan|_spdiags|efficientzero|hspmm|sspaddmm|_(?<!to_)copy$"
)

# In-place on a storage rather than on metadata: hooked, though tagged as views.
STORAGE_OPS = {"resize_", "resize_as_", "set_"}

HEADER = """\
// Written by scripts/generate_hooks.py; do not edit.
"""


def declared_signatures(include: Path) -> dict[str, str]:
    """C++ signature of each struct in at::_ops."""
    pattern = re.compile(r"struct TORCH_API (\w+) \{\s+using schema = (.*);")
    signatures = {}
    for header in sorted((include / "ATen" / "ops").glob("*_ops.h")):
        signatures.update(pattern.findall(header.read_text()))
    return signatures


def parse() -> ParsedYaml:
    native = Path(torchgen.__file__).parent / "packaged" / "ATen" / "native"
    return parse_native_yaml(
        str(native / "native_functions.yaml"), str(native / "tags.yaml")
    )


def is_factory(function: NativeFunction) -> bool:
    """Torch has a kernel for BackendSelect (torchgen.gen.needs_backend_select)."""
    name = str(function.func.name.name)
    return (
        function.func.arguments.tensor_options is not None
        and not name.endswith("_like")
        and not name.startswith("new_")
    )


def takes_names(function: NativeFunction) -> bool:
    return any(
        "Dimname" in str(argument.type) for argument in function.func.arguments.flat_all
    )


def is_hooked(parsed: ParsedYaml, function: NativeFunction) -> bool:
    name = str(function.func.name.name)
    if name in STORAGE_OPS:
        return True
    has_kernel = (
        any(parsed.backend_indices[key].has_kernel(function) for key in KERNEL_KEYS)
        or function.structured
        or function.structured_delegate is not None
    )
    is_view = function.is_view_op or "inplace_view" in function.tags
    # torchgen writes functional and out= forms of operators that lack them; programs
    # do not call those.
    is_generated = "generated" in function.tags
    return (
        has_kernel
        and not is_view
        and not is_generated
        and not RARE.search(name)
        and not takes_names(function)
    )


def shards(
    parsed: ParsedYaml, signatures: dict[str, str]
) -> list[list[tuple[str, bool]]]:
    """Structs and whether they are factories, each signature in one shard only.

    A signature is compiled where it is used, and compiling it is what takes time: shards get
    equal numbers of signatures.
    """
    by_signature: dict[tuple[str, bool], list[str]] = {}
    for function in parsed.native_functions:
        struct = function.func.name.unambiguous_name()
        if struct in signatures and is_hooked(parsed, function):
            key = (signatures[struct], is_factory(function))
            by_signature.setdefault(key, []).append(struct)
    groups = sorted(by_signature.items())
    result = []
    for shard in range(SHARDS):
        begin, end = (len(groups) * i // SHARDS for i in (shard, shard + 1))
        result.append(
            [
                (struct, factory)
                for (_, factory), structs in groups[begin:end]
                for struct in sorted(structs)
            ]
        )
    return result


def shard_text(number: int, ops: list[tuple[str, bool]]) -> str:
    lines = [
        HEADER,
        "#include <ATen/Operators.h>\n",
        '#include "bindings/torch/hook/hook_registrar.h"',
        '#include "bindings/torch/hook/hooked_ops/shards.h"\n',
        "namespace reprise::bindings {\n",
        f"void RegisterShard{number}(HookRegistrar& hooks) {{",
    ]
    for struct, factory in ops:
        method = "AddFactory" if factory else "Add"
        lines.append(f"  hooks.{method}<at::_ops::{struct}>();")
    lines += ["}\n", "}  // namespace reprise::bindings\n"]
    return "\n".join(lines)


def header_text(count: int, version: str) -> str:
    guard = "REPRISE_BINDINGS_TORCH_HOOKED_OPS_SHARDS_H_"
    declarations = "\n".join(
        f"void RegisterShard{number}(HookRegistrar& hooks);" for number in range(SHARDS)
    )
    calls = "\n".join(f"  RegisterShard{number}(hooks);" for number in range(SHARDS))
    return f"""{HEADER}//
// {count} operators of torch {version}, those of one C++ signature together.

#ifndef {guard}
#define {guard}

namespace reprise::bindings {{

class HookRegistrar;

{declarations}

inline void RegisterShards(HookRegistrar& hooks) {{
{calls}
}}

}}  // namespace reprise::bindings

#endif  // {guard}
"""


def version_of(torch: Path) -> str:
    match = re.search(r"__version__ = '(\d+\.\d+)", (torch / "version.py").read_text())
    if match is None:
        raise SystemExit(f"the torch in {torch} does not say its version")
    return match.group(1)


def main(torch: Path, output: Path) -> None:
    if Path(torchgen.__file__).parents[1] != torch.parent:
        raise SystemExit(f"there is no torchgen beside {torch}")
    lists = shards(parse(), declared_signatures(torch / "include"))
    output.mkdir(parents=True, exist_ok=True)
    for number, ops in enumerate(lists):
        (output / f"shard_{number}.cc").write_text(shard_text(number, ops))
    text = header_text(sum(map(len, lists)), version_of(torch))
    (output / "shards.h").write_text(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]))
