#include "tests/sim/simulated_libraries.h"

#include <gtest/gtest.h>
#include <link.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace reprise::sim {
namespace {

// The driver is not told how long an image is.
std::string_view TextOf(const void* image) {
  const auto* bytes = static_cast<const char*>(image);
  ElfW(Ehdr) header;
  if (std::memcmp(bytes, ELFMAG, SELFMAG) != 0) return bytes;
  std::memcpy(&header, bytes, sizeof header);
  size_t end = header.e_shoff + size_t{header.e_shnum} * header.e_shentsize;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) section;
    std::memcpy(&section, bytes + header.e_shoff + i * header.e_shentsize,
                sizeof section);
    if (section.sh_type == SHT_NOBITS) continue;
    end = std::max<size_t>(end, section.sh_offset + section.sh_size);
  }
  return {bytes, end};
}

// As a symbol of a cubin, or an entry of PTX.
bool HasKernel(std::string_view text, const std::string& name) {
  const std::string symbol = std::string(1, '\0') + name + '\0';
  return text.find(symbol) != std::string_view::npos ||
         text.find(".entry " + name + "(") != std::string_view::npos;
}

// The symbols of a cubin that have a size and are no functions.
std::map<std::string, std::vector<std::byte>> VariablesOf(
    std::string_view text) {
  std::map<std::string, std::vector<std::byte>> variables;
  if (!text.starts_with(ELFMAG)) return variables;
  const auto read = [&](auto& value, size_t offset_bytes) {
    std::memcpy(&value, text.data() + offset_bytes, sizeof value);
  };
  ElfW(Ehdr) header;
  read(header, 0);
  for (size_t i = 0; i < header.e_shnum; ++i) {
    ElfW(Shdr) symbols;
    ElfW(Shdr) names;
    read(symbols, header.e_shoff + i * header.e_shentsize);
    if (symbols.sh_type != SHT_SYMTAB) continue;
    read(names, header.e_shoff + symbols.sh_link * header.e_shentsize);
    for (size_t at = 0; at < symbols.sh_size; at += symbols.sh_entsize) {
      ElfW(Sym) symbol;
      read(symbol, symbols.sh_offset + at);
      if ((symbol.st_info & 0xf) != STT_OBJECT || symbol.st_size == 0) continue;
      variables[text.data() + names.sh_offset + symbol.st_name].resize(
          symbol.st_size);
    }
  }
  return variables;
}

}  // namespace

#define REPRISE_ENTER(name)                                                   \
  if (const CUresult result = only->gpu_.Enter(name); result != CUDA_SUCCESS) \
  return result

SimulatedLibraries::Library* SimulatedLibraries::Find(CUlibrary handle) {
  for (const auto& library : only->libraries_) {
    if (reinterpret_cast<CUlibrary>(library.get()) == handle) {
      return library.get();
    }
  }
  return nullptr;
}

SimulatedLibraries::Function* SimulatedLibraries::Find(CUkernel handle) {
  for (const auto& library : only->libraries_) {
    for (const auto& function : library->functions) {
      if (reinterpret_cast<CUkernel>(function.get()) == handle) {
        return function.get();
      }
    }
  }
  return nullptr;
}

void SimulatedLibraries::Unload(Library& library) {
  gpu_.streams.SynchronizeAll();
  for (auto& function : library.functions) {
    for (const SimulatedGpu::Graph* graph : gpu_.execs()) {
      for (const SimulatedGpu::Node& node : *graph) {
        EXPECT_NE(node.kernel, &function->kernel)
            << function->name << " was unloaded under its graph";
      }
    }
    function->kernel.run = [name = function->name](const std::byte*) {
      ADD_FAILURE() << name << " ran after it was unloaded";
    };
    gone_.push_back(std::move(function));
  }
  std::erase_if(libraries_,
                [&library](const auto& one) { return one.get() == &library; });
}

SimulatedLibraries::SimulatedLibraries(SimulatedGpu& gpu) : gpu_(gpu) {
  EXPECT_EQ(only, nullptr);
  only = this;
  device::Driver& driver = gpu.driver;
  driver.cuLibraryLoadData = [](CUlibrary* handle, const void* image,
                                CUjit_option*, void**, unsigned,
                                CUlibraryOption*, void**, unsigned) {
    REPRISE_ENTER("cuLibraryLoadData");
    ++only->loads;
    auto library = std::make_unique<Library>();
    const std::string_view text = TextOf(image);
    for (const auto& [name, kernel] : only->host_code) {
      if (!HasKernel(text, name)) continue;
      library->functions.push_back(
          std::make_unique<Function>(Function{name, kernel}));
    }
    library->variables = VariablesOf(text);
    *handle = reinterpret_cast<CUlibrary>(library.get());
    only->libraries_.push_back(std::move(library));
    return CUDA_SUCCESS;
  };
  driver.cuLibraryUnload = [](CUlibrary handle) {
    Library* const library = Find(handle);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    only->Unload(*library);
    return only->gpu_.Enter("cuLibraryUnload");
  };
  driver.cuLibraryGetKernel = [](CUkernel* kernel, CUlibrary handle,
                                 const char* name) {
    REPRISE_ENTER("cuLibraryGetKernel");
    for (const auto& function : Find(handle)->functions) {
      if (function->name != name) continue;
      *kernel = reinterpret_cast<CUkernel>(function.get());
      return CUDA_SUCCESS;
    }
    return CUDA_ERROR_NOT_FOUND;
  };
  driver.cuLibraryGetGlobal = [](CUdeviceptr* address, size_t* size_bytes,
                                 CUlibrary handle, const char* name) {
    REPRISE_ENTER("cuLibraryGetGlobal");
    EXPECT_EQ(only->gpu_.current(), only->gpu_.context);
    auto& variables = Find(handle)->variables;
    const auto found = variables.find(name);
    if (found == variables.end()) return CUDA_ERROR_NOT_FOUND;
    *address = reinterpret_cast<CUdeviceptr>(found->second.data());
    *size_bytes = found->second.size();
    return CUDA_SUCCESS;
  };
  driver.cuLibraryGetKernelCount = [](unsigned* count, CUlibrary handle) {
    REPRISE_ENTER("cuLibraryGetKernelCount");
    *count = static_cast<unsigned>(Find(handle)->functions.size());
    return CUDA_SUCCESS;
  };
  driver.cuLibraryEnumerateKernels = [](CUkernel* kernels, unsigned count,
                                        CUlibrary handle) {
    REPRISE_ENTER("cuLibraryEnumerateKernels");
    for (const auto& function : Find(handle)->functions) {
      if (count-- == 0) break;
      *kernels++ = reinterpret_cast<CUkernel>(function.get());
    }
    return CUDA_SUCCESS;
  };
  driver.cuKernelGetName = [](const char** name, CUkernel kernel) {
    REPRISE_ENTER("cuKernelGetName");
    const Function* const function = Find(kernel);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *name = function->name.c_str();
    return CUDA_SUCCESS;
  };
  driver.cuKernelGetFunction = [](CUfunction* handle, CUkernel kernel) {
    REPRISE_ENTER("cuKernelGetFunction");
    EXPECT_EQ(only->gpu_.current(), only->gpu_.context);
    Function* const function = Find(kernel);
    if (function == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    *handle = reinterpret_cast<CUfunction>(&function->kernel);
    return CUDA_SUCCESS;
  };
  driver.cuFuncLoad = [](CUfunction) {
    REPRISE_ENTER("cuFuncLoad");
    ++only->ready_calls;
    return CUDA_SUCCESS;
  };
}

#undef REPRISE_ENTER

SimulatedLibraries::~SimulatedLibraries() {
  EXPECT_EQ(loaded(), 0u);
  only = nullptr;
}

}  // namespace reprise::sim
