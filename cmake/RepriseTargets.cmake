# The shapes of Reprise's targets. A folder is a target: list its sources and its
# dependencies in its CMakeLists.txt, and nothing else.

# reprise_add_library(<name> [SHARED] SOURCES <cc>... [DEPS <target>...] [PRIVATE_DEPS <target>...])
#
# Makes the target reprise_<name> with the alias reprise::<name>; without SOURCES
# it holds headers only. Includes are written from the root of the project.
function(reprise_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "SHARED" "" "SOURCES;DEPS;PRIVATE_DEPS")
  set(target reprise_${name})
  if(NOT arg_SOURCES)
    add_library(${target} INTERFACE)
    target_include_directories(${target} INTERFACE ${PROJECT_SOURCE_DIR})
    target_link_libraries(${target} INTERFACE ${arg_DEPS} ${arg_PRIVATE_DEPS})
  else()
    if(arg_SHARED)
      add_library(${target} SHARED ${arg_SOURCES})
    else()
      add_library(${target} STATIC ${arg_SOURCES})
    endif()
    target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR})
    target_compile_options(${target} PRIVATE ${REPRISE_WARNINGS})
    target_link_libraries(${target} PUBLIC ${arg_DEPS} PRIVATE ${arg_PRIVATE_DEPS})
  endif()
  add_library(reprise::${name} ALIAS ${target})
endfunction()

# reprise_precompile(<target> <header>...)
# reprise_reuse_precompiled(<target> <other>)
#
# The target's sources begin with headers that are compiled once; or with those of
# another target, for which a program is compiled as code that may go into a library.
function(reprise_precompile target)
  if(REPRISE_PCH)
    target_compile_options(${target} PRIVATE ${REPRISE_PCH_OPTIONS})
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()
function(reprise_reuse_precompiled target other)
  if(REPRISE_PCH)
    target_compile_options(${target} PRIVATE ${REPRISE_PCH_OPTIONS} -fPIC)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()

# reprise_add_test(<stem>_test.cc [SOURCES <cc>...] [DEPS <target>...] [LABELS <label>...])
#
# One GoogleTest program a file, from tests/<folder>/CMakeLists.txt. A test that
# needs a GPU carries the label gpu, one that has threads the label threads;
# the target reprise_<label>_tests builds all of a label. The user's cache is
# left alone. REPRISE_TEST_HEADERS, set for a folder, names another target than
# reprise_sim whose precompiled headers its tests begin with.
function(reprise_add_test source)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS;LABELS")
  reprise_program_name(target tests ${source})
  add_executable(${target} ${source} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE ${REPRISE_WARNINGS})
  target_link_libraries(${target} PRIVATE ${arg_DEPS} GTest::gmock_main)
  if(NOT REPRISE_TEST_HEADERS)
    set(REPRISE_TEST_HEADERS reprise_sim)
  endif()
  reprise_reuse_precompiled(${target} ${REPRISE_TEST_HEADERS})
  file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  # Listed when ctest runs, so that building needs no device and no torch on the path.
  set(properties TIMEOUT 120 ENVIRONMENT REPRISE_CACHE_DIR=${PROJECT_BINARY_DIR}/tests/cache)
  if(arg_LABELS)
    list(APPEND properties LABELS "${arg_LABELS}")
  endif()
  foreach(label IN LISTS arg_LABELS)
    if(NOT TARGET reprise_${label}_tests)
      add_custom_target(reprise_${label}_tests)
    endif()
    add_dependencies(reprise_${label}_tests ${target})
  endforeach()
  # CUDA does not run under the host's sanitizers.
  if(REPRISE_SANITIZE AND "gpu" IN_LIST arg_LABELS)
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL TRUE)
    return()
  endif()
  # For a machine with a GPU and no build folder: scripts/gpu_bundle.sh.
  if("gpu" IN_LIST arg_LABELS)
    set_target_properties(${target} PROPERTIES INSTALL_RPATH "$ORIGIN")
    install(TARGETS ${target} RUNTIME DESTINATION . COMPONENT gpu_tests EXCLUDE_FROM_ALL)
  endif()
  gtest_discover_tests(${target} TEST_PREFIX ${folder}/ DISCOVERY_MODE PRE_TEST
                       DISCOVERY_TIMEOUT 60 PROPERTIES ${properties})
endfunction()

# reprise_add_benchmark(<stem>_benchmark.cc [DEPS <target>...])
#
# One Google Benchmark program a file, from perf/<folder>/CMakeLists.txt; its main is
# perf/main.cc.
function(reprise_add_benchmark source)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  reprise_program_name(target perf ${source})
  add_executable(${target} ${source} ${arg_SOURCES})
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${target} PRIVATE ${REPRISE_WARNINGS})
  target_link_libraries(${target} PRIVATE ${arg_DEPS} reprise_perf_main)
endfunction()

# Lets a test or benchmark find the CUDA libraries that lie beside the headers it was built with.
function(reprise_use_cuda_libraries target)
  get_target_property(include reprise_dep::cuda_headers INTERFACE_INCLUDE_DIRECTORIES)
  target_compile_definitions(${target} PRIVATE REPRISE_TEST_CUDA_LIBRARY_DIR="${include}/../lib")
endfunction()

# tests/engine/base/log_test.cc -> engine_base_log_test
function(reprise_program_name out top source)
  file(RELATIVE_PATH path ${PROJECT_SOURCE_DIR}/${top} ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  cmake_path(REMOVE_EXTENSION path LAST_ONLY)
  string(REPLACE "/" "_" path ${path})
  set(${out} ${path} PARENT_SCOPE)
endfunction()
