"""The tensors that autograd saves in a call."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from reprise._functions_of_c import version_of


class Saved:
    """What autograd saves in a call, in order. Its nodes get it back from here."""

    def __init__(self, instead: Sequence[torch.Tensor] | None = None) -> None:
        """`instead`: nodes get these, of an earlier call that saved the like."""
        self.tensors: list[torch.Tensor] = []
        self.first_node = torch._C._autograd._get_sequence_nr()  # that may save some
        self._versions: list[int] = []
        self._instead = instead
        self._asked: list[int] = []  # for which, since somebody looked

    @property
    def are_known(self) -> bool:
        """Whether a call of that kind was looked at before."""
        return self._instead is not None

    @contextlib.contextmanager
    def hooks(self) -> Iterator[None]:
        """Set the hooks, around the call.

        Code inside that disables hooks requires that there are none, so it removes these
        (TapeRecorder::NoteHooksDisabled).
        """
        hooks = torch._C._autograd
        pack = self._pack
        hooks._push_saved_tensors_default_hooks(pack, self._unpack)
        try:
            yield
        finally:
            top = hooks._top_saved_tensors_default_hooks(True)
            if top is not None and top[0] is pack:
                hooks._pop_saved_tensors_default_hooks()

    def _pack(self, tensor: torch.Tensor) -> int:
        # With its history it would keep the node that keeps this.
        self.tensors.append(tensor.detach())
        self._versions.append(version_of(tensor))
        return len(self.tensors) - 1

    def _unpack(self, index: int) -> torch.Tensor:
        self._asked.append(index)
        if self._instead is not None:
            return self._instead[index]
        tensor, version = self.tensors[index], self._versions[index]
        if version_of(tensor) != version:
            raise RuntimeError(
                "one of the variables needed for gradient computation has been "
                f"modified by an inplace operation: [{tensor.type()} "
                f"{list(tensor.shape)}] is at version {version_of(tensor)}; expected "
                f"version {version} instead."
            )
        return tensor

    def written(self) -> bool:
        """Whether one of them was written since."""
        pairs = zip(self.tensors, self._versions, strict=True)
        return any(version_of(each) != version for each, version in pairs)

    def ask(self, node: Any, name: str) -> tuple[Any, list[int]]:
        """Return that attribute of a node, and which of the tensors the node needed for it."""
        self._asked = []
        return getattr(node, name), self._asked
