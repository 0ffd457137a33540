# What Reprise is built from: Debian's packages and, found by path, torch's wheel.
# libcuda, libcupti and libnvrtc are loaded at run time and never linked.

function(reprise_require_header out header package)
  find_path(${out} ${header})
  mark_as_advanced(${out})
  if(NOT ${out})
    message(FATAL_ERROR "reprise needs ${header}: apt-get install ${package}")
  endif()
endfunction()

reprise_require_header(REPRISE_EXPECTED_DIR tl/expected.hpp libexpected-dev)
reprise_require_header(REPRISE_XXHASH_DIR xxhash.h libxxhash-dev)
reprise_require_header(REPRISE_SPDLOG_DIR spdlog/spdlog.h libspdlog-dev)

# spdlog and fmt are compiled into the one source file that uses them: torch
# brings a newer fmt, and two of them in one process must not meet.
add_library(reprise_dep_spdlog INTERFACE)
target_compile_definitions(reprise_dep_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)
add_library(reprise_dep::spdlog ALIAS reprise_dep_spdlog)

find_package(Threads REQUIRED)
find_package(TBB REQUIRED)
find_package(nlohmann_json REQUIRED)
if(REPRISE_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(REPRISE_BENCHMARKS)
  find_package(benchmark REQUIRED)
endif()

include(RepriseTorch)
