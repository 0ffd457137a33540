#include "engine/device/shared_library.h"

#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace reprise::device {
namespace {

constexpr std::string_view kWheelFolder = "/nvidia/cu13/lib";
constexpr std::string_view kTorchFolder = "/torch/lib/";

}  // namespace

std::vector<std::string> CudaLibraryFolders(std::string_view maps) {
  std::vector<std::string> folders;
  const auto add = [&folders](std::string folder) {
    if (std::find(folders.begin(), folders.end(), folder) == folders.end()) {
      folders.push_back(std::move(folder));
    }
  };
  while (!maps.empty()) {
    const std::string_view line = maps.substr(0, maps.find('\n'));
    maps.remove_prefix(std::min(maps.size(), line.size() + 1));
    const size_t start = line.find('/');
    if (start == std::string_view::npos) continue;
    const std::string_view path = line.substr(start);
    const std::string_view folder = path.substr(0, path.rfind('/'));
    const std::string_view file = path.substr(folder.size());
    if (folder.ends_with(kWheelFolder) || file.starts_with("/libcudart.so") ||
        file.starts_with("/libcublas.so")) {
      add(std::string(folder));
    } else if (const size_t torch = path.rfind(kTorchFolder);
               torch != std::string_view::npos &&
               path.substr(torch + kTorchFolder.size())
                   .starts_with("libtorch")) {
      add(std::string(path.substr(0, torch)).append(kWheelFolder));
    }
  }
  add("/usr/local/cuda/lib64");
  add("/usr/local/cuda/extras/CUPTI/lib64");
  return folders;
}

base::Result<void*> OpenSharedLibrary(const std::string& soname) {
  if (void* loaded = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    return loaded;
  }
  if (void* found = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  std::string message = "cannot load " + soname;
  if (const char* why = dlerror()) message.append(" (").append(why).append(")");
  std::ifstream file("/proc/self/maps");
  const std::string maps{std::istreambuf_iterator<char>(file), {}};
  for (const std::string& folder : CudaLibraryFolders(maps)) {
    const std::string path = std::string(folder).append("/").append(soname);
    if (void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    message.append(", nor ").append(path);
  }
  return base::Fail(base::Code::kUnavailable, std::move(message));
}

void* FindSymbol(void* library, const char* symbol) {
  return dlsym(library, symbol);
}

}  // namespace reprise::device
