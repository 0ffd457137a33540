// What is to be compiled.

#ifndef REPRISE_KERNELS_KERNEL_SOURCE_H_
#define REPRISE_KERNELS_KERNEL_SOURCE_H_

#include <map>
#include <string>
#include <vector>

namespace reprise::kernels {

// CUDA C++ and all that decides what becomes of it. Nothing is put in front of
// the source: lines in messages are the caller's own. Thread-compatible value.
struct KernelSource {
  std::string source = {};
  // Stands for the file in messages and in __FILE__. Quoted includes are looked
  // for in its folder too, which is the working directory if it names none.
  std::string name = "kernel.cu";
  // "sm_90" gives machine code, "compute_90" PTX. A device that this NVRTC does
  // not know yet is given PTX of the newest architecture below it.
  std::string architecture = {};
  // NVRTC's own, one a string ("--use_fast_math"); not the architecture.
  std::vector<std::string> options = {};
  // Texts by the names under which they are included, before any file.
  std::map<std::string, std::string> headers = {};
  // Folders of header files, in the order of the search.
  std::vector<std::string> include_paths = {};
  // Kernels and variables whose names in the code are asked for, as one would
  // take their address: "scale<float>", "&table". Instantiates templates.
  std::vector<std::string> name_expressions = {};
};

}  // namespace reprise::kernels

#endif  // REPRISE_KERNELS_KERNEL_SOURCE_H_
