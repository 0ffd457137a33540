# The C++ library as others see it: libreprise.so and libreprise.a, its headers, a
# CMake package and a pkg-config file.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

# In the tree headers name each other from its root, which nobody else has: they are
# copied to <out> as reprise.h and reprise/*.h, with their includes changed
# accordingly. An include of a header that is not public stops the configuration.
# tl::expected, of which the library's interface is made, lies beside them, so that a
# user has the one that the library was built with.
function(reprise_publish_headers out)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "HEADERS")
  foreach(header IN LISTS arg_HEADERS)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
    file(READ ${PROJECT_SOURCE_DIR}/${header} text)
    string(REPLACE "<tl/expected.hpp>" "\"reprise/expected.hpp\"" text "${text}")
    foreach(other IN LISTS arg_HEADERS)
      cmake_path(GET other FILENAME name)
      string(REPLACE "#include \"${other}\"" "#include \"reprise/${name}\"" text "${text}")
    endforeach()
    if(text MATCHES "#include \"(bindings|cache|engine|kernels|scheduler)/[^\"]*\"|#include <(cuda|nlohmann|spdlog|tbb|xxhash)[^>]*>")
      message(FATAL_ERROR "reprise: the public header ${header} has ${CMAKE_MATCH_0}, which is not installed")
    endif()
    cmake_path(GET header FILENAME name)
    if(name STREQUAL "reprise.h")
      file(GENERATE OUTPUT ${out}/reprise.h CONTENT "${text}")
    else()
      file(GENERATE OUTPUT ${out}/reprise/${name} CONTENT "${text}")
    endif()
  endforeach()
  configure_file(${REPRISE_EXPECTED_DIR}/tl/expected.hpp ${out}/reprise/expected.hpp COPYONLY)
endfunction()

# Into `out`: the static libraries of the tree that `target` is made of, itself too.
function(reprise_parts_of target out)
  set(parts ${${out}})
  get_target_property(aliased ${target} ALIASED_TARGET)
  if(aliased)
    set(target ${aliased})
  endif()
  if(target IN_LIST parts OR NOT target MATCHES "^reprise_" OR target MATCHES "^reprise_dep_")
    return()
  endif()
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    list(APPEND parts ${target})
  endif()
  get_target_property(dependencies ${target} INTERFACE_LINK_LIBRARIES)
  foreach(dependency IN LISTS dependencies)
    string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" dependency "${dependency}")
    if(TARGET "${dependency}")
      reprise_parts_of(${dependency} parts)
    endif()
  endforeach()
  set(${out} ${parts} PARENT_SCOPE)
endfunction()

# reprise_add_static(<part>...)
#
# The target reprise_static (reprise::reprise_static in a found package): all that
# PARTS are made of, in one archive. Nothing in it is hidden from who links it.
function(reprise_add_static)
  set(parts "")
  foreach(part IN LISTS ARGN)
    reprise_parts_of(${part} parts)
  endforeach()
  add_library(reprise_static STATIC)
  add_library(reprise::reprise_static ALIAS reprise_static)
  foreach(part IN LISTS parts)
    target_sources(reprise_static PRIVATE $<TARGET_OBJECTS:${part}>)
  endforeach()
  target_link_libraries(reprise_static INTERFACE tbb pthread ${CMAKE_DL_LIBS})
  set_target_properties(reprise_static PROPERTIES OUTPUT_NAME reprise LINKER_LANGUAGE CXX)
endfunction()

# reprise_add_package(PARTS <target>... HEADERS <header>...)
#
# The target reprise (reprise::reprise here and in a found package) is a shared
# library of the objects of PARTS, which shows only what is REPRISE_EXPORT. Before
# version 1 every minor version has an interface of its own.
function(reprise_add_package)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "" "PARTS;HEADERS")
  set(include ${PROJECT_BINARY_DIR}/include)
  reprise_publish_headers(${include} HEADERS ${arg_HEADERS})

  add_library(reprise SHARED)
  add_library(reprise::reprise ALIAS reprise)
  foreach(part IN LISTS arg_PARTS)
    target_sources(reprise PRIVATE $<TARGET_OBJECTS:${part}>)
    target_link_libraries(reprise PRIVATE $<TARGET_PROPERTY:${part},LINK_LIBRARIES>)
  endforeach()
  set(map ${PROJECT_SOURCE_DIR}/cmake/reprise.map)
  target_link_options(reprise PRIVATE
    -Wl,--version-script=${map} -Wl,--gc-sections -Wl,--as-needed)
  set_target_properties(reprise PROPERTIES
    LINKER_LANGUAGE CXX
    LINK_DEPENDS ${map}
    VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

  set(targets reprise)
  if(REPRISE_STATIC)
    reprise_add_static(${arg_PARTS})
    list(APPEND targets reprise_static)
  endif()
  foreach(target IN LISTS targets)
    target_include_directories(${target} INTERFACE
      $<BUILD_INTERFACE:${include}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    target_compile_features(${target} INTERFACE cxx_std_20)
  endforeach()

  install(TARGETS ${targets} EXPORT reprise
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT cpp)
  install(DIRECTORY ${include}/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT cpp)
  set(package ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
  install(EXPORT reprise NAMESPACE reprise:: FILE reprise-config.cmake
    DESTINATION ${package} COMPONENT cpp)
  set(version ${PROJECT_BINARY_DIR}/reprise-config-version.cmake)
  write_basic_package_version_file(${version} COMPATIBILITY SameMinorVersion)
  install(FILES ${version} DESTINATION ${package} COMPONENT cpp)

  # What the archive needs beside; the shared library names it itself.
  set(libraries "-ltbb -lpthread")
  foreach(library IN LISTS CMAKE_DL_LIBS)
    string(APPEND libraries " -l${library}")
  endforeach()
  set(to_prefix ..)
  string(REGEX MATCHALL "[^/]+" folders ${CMAKE_INSTALL_LIBDIR})
  foreach(folder IN LISTS folders)
    string(APPEND to_prefix /..)
  endforeach()
  configure_file(${PROJECT_SOURCE_DIR}/cmake/reprise.pc.in ${PROJECT_BINARY_DIR}/reprise.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/reprise.pc
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT cpp)
endfunction()
