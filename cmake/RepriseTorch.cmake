# torch's wheel and the CUDA headers that come with it, found by path.
#
# find_package(Torch) asks for a CUDA toolkit, and importing torch to ask it where
# it lives takes seconds and a matching Python; the wheel's layout is all we need.
# Gives reprise_dep::cuda_headers, and with REPRISE_TORCH also reprise_dep::torch.

set(REPRISE_TORCH_DIR "" CACHE PATH "The folder torch/ of an installed wheel of torch ${REPRISE_TORCH_OLDEST} or newer")
set(REPRISE_CUDA_INCLUDE_DIR "" CACHE PATH "Headers of CUDA 13; by default those of torch's wheel")

function(reprise_find_torch out)
  set(candidates ${REPRISE_TORCH_DIR} $ENV{REPRISE_TORCH_DIR})
  if(NOT candidates)
    set(prefixes $ENV{VIRTUAL_ENV} $ENV{CONDA_PREFIX})
    foreach(python IN ITEMS "${Python_EXECUTABLE}" "${PYTHON_EXECUTABLE}")
      if(python)  # passed in by scikit-build-core: the environment that pip installs into
        cmake_path(GET python PARENT_PATH bin)
        cmake_path(GET bin PARENT_PATH prefix)
        list(APPEND prefixes ${prefix})
      endif()
    endforeach()
    foreach(prefix IN LISTS prefixes)
      file(GLOB found ${prefix}/lib/python3*/site-packages/torch ${prefix}/lib/python3*/dist-packages/torch)
      list(APPEND candidates ${found})
    endforeach()
  endif()
  foreach(candidate IN LISTS candidates)
    if(EXISTS ${candidate}/version.py)
      set(${out} ${candidate} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  set(${out} "" PARENT_SCOPE)
endfunction()

# One sentence for each way in which a torch does not fit. Sets REPRISE_TORCH_VERSION
# (2.11) and the library's name for it (reprise_torch_211).
function(reprise_check_torch torch)
  set(wanted "torch ${REPRISE_TORCH_TESTED} for CUDA 13: pip install \
'torch==${REPRISE_TORCH_TESTED}.*' 'cuda-toolkit[crt,cccl]' (${REPRISE_TORCH_OLDEST} to ${REPRISE_TORCH_NEWEST} compile)")
  if(NOT torch)
    reprise_lacks("no torch was found; install ${wanted}, and activate its environment or pass \
-DREPRISE_TORCH_DIR=<site-packages>/torch (-DREPRISE_TORCH=OFF builds the core alone)")
    return()
  endif()
  file(STRINGS ${torch}/version.py line REGEX "^__version__")
  string(REGEX MATCH "([0-9]+)\\.([0-9]+)[^']*" full "${line}")
  set(version ${CMAKE_MATCH_1}.${CMAKE_MATCH_2})
  set(found "the torch in ${torch} (${full})")
  if(version VERSION_LESS REPRISE_TORCH_OLDEST)
    reprise_lacks("${found} is too old; install ${wanted}")
    return()
  endif()
  if(NOT EXISTS ${torch}/lib/libtorch_cuda.so)
    reprise_lacks("${found} is for CPUs alone: it has no libtorch_cuda.so; install ${wanted}")
    return()
  endif()
  file(STRINGS ${torch}/version.py line REGEX "^cuda[: ]")
  if(line MATCHES "'([0-9]+)\\.([0-9]+)'" AND NOT CMAKE_MATCH_1 EQUAL 13)
    reprise_lacks("${found} is for CUDA ${CMAKE_MATCH_1}.${CMAKE_MATCH_2}; install ${wanted}")
    return()
  endif()
  if(version VERSION_GREATER REPRISE_TORCH_NEWEST)
    message(WARNING
      "reprise: ${found} is newer than ${REPRISE_TORCH_NEWEST}, the newest that Reprise was "
      "compiled with; the build may fail, and so may what it builds")
  elseif(version VERSION_GREATER REPRISE_TORCH_TESTED)
    message(WARNING
      "reprise: ${found} is newer than ${REPRISE_TORCH_TESTED}, the newest that passes all "
      "tests on a GPU; docs/limits.md says what is known of others")
  endif()
  message(STATUS "torch ${full} in ${torch}")
  set(REPRISE_TORCH_VERSION ${version} PARENT_SCOPE)
  string(REPLACE "." "" digits ${version})
  set(REPRISE_TORCH_LIBRARY reprise_torch_${digits} PARENT_SCOPE)
endfunction()

# The Python that reads torch's list of operators: REPRISE_PYTHON.
function(reprise_find_python torch)
  cmake_path(CONVERT "${torch}/../../../../bin/python3" TO_CMAKE_PATH_LIST of_torch NORMALIZE)
  foreach(python IN ITEMS "${Python_EXECUTABLE}" "${PYTHON_EXECUTABLE}" ${of_torch} python3)
    execute_process(COMMAND "${python}" -c "import yaml" RESULT_VARIABLE failed ERROR_QUIET)
    if(failed EQUAL 0)
      set(REPRISE_PYTHON ${python} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  reprise_lacks("no Python with PyYAML was found, which reads torch's list of operators; in the \
environment of the torch in ${torch}, run: pip install pyyaml")
endfunction()

function(reprise_import_torch torch)
  foreach(library IN ITEMS c10 c10_cuda torch_cpu torch_cuda)
    add_library(reprise_dep::${library} SHARED IMPORTED GLOBAL)
    set_target_properties(reprise_dep::${library} PROPERTIES
      IMPORTED_LOCATION ${torch}/lib/lib${library}.so)
  endforeach()
  cmake_path(GET torch PARENT_PATH site)
  add_library(reprise_dep::cudart SHARED IMPORTED GLOBAL)
  set_target_properties(reprise_dep::cudart PROPERTIES
    IMPORTED_LOCATION ${site}/nvidia/cu13/lib/libcudart.so.13)
  add_library(reprise_dep::torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(reprise_dep::torch SYSTEM INTERFACE
    ${torch}/include ${torch}/include/torch/csrc/api/include)
  target_compile_definitions(reprise_dep::torch INTERFACE
    _GLIBCXX_USE_CXX11_ABI=1 REPRISE_TORCH_VERSION="${REPRISE_TORCH_VERSION}")
  # torch's libraries find CUDA's on their own when they are loaded. Its headers
  # call a little of the CUDA runtime, which our library finds behind torch's; a
  # program must name it.
  target_link_options(reprise_dep::torch INTERFACE -Wl,--allow-shlib-undefined)
  target_link_libraries(reprise_dep::torch INTERFACE
    reprise_dep::torch_cuda reprise_dep::torch_cpu reprise_dep::c10_cuda reprise_dep::c10
    $<$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>:reprise_dep::cudart>
    reprise_dep::cuda_headers)
endfunction()

function(reprise_import_cuda_headers torch)
  set(include ${REPRISE_CUDA_INCLUDE_DIR})
  if(NOT include AND torch)
    cmake_path(GET torch PARENT_PATH site)
    set(include ${site}/nvidia/cu13/include)
  endif()
  foreach(header IN ITEMS cuda.h cupti.h nvrtc.h nvtx3/nvToolsExt.h)
    if(NOT include OR NOT EXISTS ${include}/${header})
      reprise_lacks("there is no ${header} in '${include}'; set REPRISE_TORCH_DIR to torch's wheel, \
which brings CUDA's headers, or REPRISE_CUDA_INCLUDE_DIR to those of CUDA 13")
      return()
    endif()
  endforeach()
  if(REPRISE_TORCH AND NOT EXISTS ${include}/crt/host_defines.h)
    # The same release of CUDA as torch's own headers.
    file(STRINGS ${include}/cuda.h line REGEX "^#define CUDA_VERSION ")
    string(REGEX MATCH "([0-9]+)0([0-9])0$" version "${line}")
    reprise_lacks("there is no crt/host_defines.h in ${include}; run: pip install \
'cuda-toolkit[crt,cccl]==${CMAKE_MATCH_1}.${CMAKE_MATCH_2}.*'")
  endif()
  add_library(reprise_dep::cuda_headers INTERFACE IMPORTED GLOBAL)
  target_include_directories(reprise_dep::cuda_headers SYSTEM INTERFACE ${include})
endfunction()

reprise_find_torch(reprise_torch_dir)
if(REPRISE_TORCH)
  reprise_check_torch("${reprise_torch_dir}")
endif()
if(REPRISE_TORCH_VERSION OR NOT REPRISE_TORCH)  # else the headers are not at fault
  reprise_import_cuda_headers("${reprise_torch_dir}")
endif()
if(REPRISE_TORCH_VERSION)
  reprise_find_python(${reprise_torch_dir})
endif()
reprise_stop_if_lacking()
if(REPRISE_TORCH)
  reprise_import_torch(${reprise_torch_dir})
endif()
