"""Values that C++ and Python share by number: scripts/write_enums.py writes them."""

import enum


# From bindings/torch/observe/use.h
class Use(enum.IntEnum):
    """What a function of torch's uses."""

    TENSOR = 0
    STORAGE = 1
    MEMORY = 2
    STREAMS = 3
    LAUNCHES = 4
    GRAPH = 5
    SEEDS = 6
    SCRIPTS = 7
    WAITS = 8
    KERNELS = 9
    SAVED_TENSORS = 10
    NO_HOOKS = 11
    LIBRARIES = 12
    MODES = 13
    PLANS = 14
    OFFSET = 15
    ORIGIN = 16
    HISTORY = 17
    TAKES_STATE = 18
    SETS_STATE = 19
    TENSORS_ADDRESS = 20
    STORAGES_ADDRESS = 21
    EXPORTS = 22
    EXPORTS_FAST = 23


# From bindings/torch/region/tape_record.h
class TapePass:
    """Which passes of a callable's work a tape holds."""

    WHOLE = 0
    FORWARD = 1
    BACKWARD = 2


# From bindings/torch/region/region_variants.h
# From bindings/torch/region_library.h
class Step:
    """What a call of a region has come to."""

    DONE = 0
    RECORD = 1
    PLAIN = 2
    LOOK = 3
    PASSED = 4
    INACTIVE = 5
    LOOK_GIVEN = 6
    RAISED = 7
    FORKED = 8


# From bindings/torch/region/region_variants.h
class Verdict:
    """What a recorded call has shown."""

    SEEN = 0
    TRUSTED = 1
    SAME = 2
    AGAIN = 3
    REFUSED = 4
    DIFFERS = 5
    WITHDRAWN = 6


# From bindings/torch/region/number_program.h
class NumberOp:
    """What a number that Python computes is."""

    GIVEN = 0
    READ = 1
    CONSTANT = 2
    NEGATE = 3
    ABSOLUTE = 4
    ADD = 5
    SUBTRACT = 6
    MULTIPLY = 7
    DIVIDE = 8
    POWER = 9
    LESS = 10
    LESS_EQUAL = 11
    EQUAL = 12


# From bindings/torch/region/region_node.h
class Target:
    """Whom a gradient is added to: the next leaf, or `OUTPUTS - i`: output i."""

    OUTPUTS = -2
    LEAF = -1
