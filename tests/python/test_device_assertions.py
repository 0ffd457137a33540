"""Every assertion in torch's kernels has been read, and what may fail it is gated."""

from __future__ import annotations

import pathlib

import pytest
import skips
from registry import device_assertions

READ = pathlib.Path(device_assertions.__file__).with_suffix(".txt")


def test_every_assertion_of_torchs_kernels_has_been_read() -> None:
    """One that a new version brings may look at data that nothing gates.

    Of one architecture. A new kernel that asserts by a text which is known is not seen.
    """
    tool, libraries = device_assertions.cuobjdump(), device_assertions.libraries()
    if tool is None or not libraries:
        pytest.skip(skips.NO_TOOL.format("cuobjdump"))
    found = set().union(*(device_assertions.texts(tool, each) for each in libraries))
    lines = READ.read_text().splitlines()
    read = {line for line in lines if line and not line.startswith(("#", "["))}
    assert found - read == set()
    # Most are in each version: the tool finds them.
    assert len(found & read) > 0.75 * len(read)
