# What Reprise is built from: Debian's packages and, found by path, torch's wheel.
# libcuda, libcupti and libnvrtc are loaded at run time and never linked.

function(reprise_require_header out header package)
  find_path(${out} ${header})
  mark_as_advanced(${out})
  if(NOT ${out})
    reprise_lacks_package(${package})
  endif()
endfunction()

# `name` is what find_package calls it, which needs a compiler.
macro(reprise_require_package name package)
  if(REPRISE_CXX)
    find_package(${name} QUIET)
  endif()
  if(NOT ${name}_FOUND)
    reprise_lacks_package(${package})
  endif()
endmacro()

reprise_require_header(REPRISE_EXPECTED_DIR tl/expected.hpp libexpected-dev)
reprise_require_header(REPRISE_XXHASH_DIR xxhash.h libxxhash-dev)
reprise_require_header(REPRISE_SPDLOG_DIR spdlog/spdlog.h libspdlog-dev)
reprise_require_header(REPRISE_FMT_DIR fmt/format.h libfmt-dev)

# spdlog and fmt are compiled into the one source file that uses them: torch
# brings a newer fmt, and two of them in one process must not meet.
add_library(reprise_dep_spdlog INTERFACE)
target_compile_definitions(reprise_dep_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
add_library(reprise_dep::spdlog ALIAS reprise_dep_spdlog)

if(REPRISE_CXX)
  find_package(Threads REQUIRED)
endif()
reprise_require_package(TBB libtbb-dev)
reprise_require_package(nlohmann_json nlohmann-json3-dev)
if(REPRISE_TESTS)
  reprise_require_package(GTest "libgtest-dev;libgmock-dev")
  include(GoogleTest)
endif()
if(REPRISE_BENCHMARKS)
  reprise_require_package(benchmark libbenchmark-dev)
endif()

include(RepriseTorch)
