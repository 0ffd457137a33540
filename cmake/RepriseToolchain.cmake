# How every target is compiled: language, default build type, ccache, sanitizers.

include(RepriseMissing)

# Without a compiler project() would end at once. So what else is missing is told, too.
string(REGEX REPLACE " .*" "" named "$ENV{CXX}")  # it may hold options
find_program(REPRISE_CXX NAMES ${CMAKE_CXX_COMPILER} ${named} c++ g++ clang++)
mark_as_advanced(REPRISE_CXX)
if(REPRISE_CXX)
  enable_language(CXX)
else()
  reprise_lacks_package(g++)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Precompiled headers defeat ccache unless it is told that they are safe:
# -fpch-preprocess (below) makes gcc name them in its output, so that
# ccache hashes what is in them. Paths relative to the checkout let build folders
# and checkouts share what was compiled.
find_program(REPRISE_CCACHE ccache)
mark_as_advanced(REPRISE_CCACHE)
if(REPRISE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env
      CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      ${REPRISE_CCACHE})
endif()

if(REPRISE_SANITIZE)
  add_compile_options(-fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${REPRISE_SANITIZE})
endif()

set(REPRISE_WARNINGS -Wall -Wextra -Wpedantic -Wnon-virtual-dtor -Woverloaded-virtual)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND REPRISE_WARNINGS -Wno-restrict)  # false alarms on std::string (gcc bug 105329)
endif()
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  list(APPEND REPRISE_WARNINGS -Wthread-safety)
endif()
if(REPRISE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # It does not model fences. What ours order are atomics, of which it reports no race.
  list(APPEND REPRISE_WARNINGS -Wno-tsan)
endif()
if(REPRISE_WERROR)
  list(APPEND REPRISE_WARNINGS -Werror)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(REPRISE_PCH_OPTIONS -fpch-preprocess)
  if(CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # libstdc++ has these off where they are false, which a precompiled header forgets.
    list(APPEND REPRISE_PCH_OPTIONS -Wno-array-bounds -Wno-stringop-overflow)
  endif()
endif()
