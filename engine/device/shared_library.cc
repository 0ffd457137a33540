#include "engine/device/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <iterator>
#include <new>
#include <utility>

namespace reprise::device {
namespace {

constexpr std::string_view kWheelFolder = "/nvidia/cu13/lib";
constexpr std::string_view kTorchFolder = "/torch/lib/";

// The text of /proc/self/maps.
std::string Maps() {
  std::ifstream file("/proc/self/maps");
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string LoaderError() {
  const char* why = dlerror();
  return why == nullptr ? "" : why;
}

// Where the loader looks for what the program asks for, its cache apart.
std::vector<std::string> LoaderFolders() {
  std::vector<std::string> folders;
  void* const program = dlopen(nullptr, RTLD_NOW);
  if (program == nullptr) return folders;
  Dl_serinfo size{};
  if (dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<std::max_align_t> memory(
        size.dls_size / sizeof(std::max_align_t) + 1);
    auto* info = new (memory.data()) Dl_serinfo(size);
    if (dlinfo(program, RTLD_DI_SERINFOSIZE, info) == 0 &&
        dlinfo(program, RTLD_DI_SERINFO, info) == 0) {
      for (unsigned i = 0; i < info->dls_cnt; ++i) {
        folders.emplace_back(info->dls_serpath[i].dls_name);
      }
    }
  }
  dlclose(program);
  return folders;
}

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

base::Result<void*> OpenSharedLibrary(const std::string& soname,
                                      const std::string& if_missing) {
  if (void* loaded = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    return loaded;
  }
  if (void* found = dlopen(soname.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
  std::string why = LoaderError();
  // Of a file that it found, the loader gives the path or what the file lacks.
  bool is_missing = why.starts_with(soname + ":");
  std::vector<std::string> folders;
  if (soname.find('/') == std::string::npos) {
    folders = CudaLibraryFolders(Maps());
  }
  for (const std::string& folder : folders) {
    const std::string path = std::string(folder).append("/").append(soname);
    if (void* found = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return found;
    std::string of_path = LoaderError();
    if (!is_missing || access(path.c_str(), F_OK) != 0) continue;
    is_missing = false;
    why = std::move(of_path);
  }
  std::string message = is_missing && !if_missing.empty()
                            ? if_missing
                            : "cannot load " + soname + " (" + why + ")";
  return base::Fail(base::Code::kUnavailable, std::move(message));
}

std::string LocateSharedLibrary(const std::string& soname) {
  if (void* loaded = dlopen(soname.c_str(), RTLD_NOW | RTLD_NOLOAD)) {
    std::string path;
    link_map* map = nullptr;
    if (dlinfo(loaded, RTLD_DI_LINKMAP, &map) == 0) path = map->l_name;
    dlclose(loaded);
    return path;
  }
  std::vector<std::string> folders = LoaderFolders();
  for (std::string& folder : CudaLibraryFolders(Maps())) {
    folders.push_back(std::move(folder));
  }
  for (std::string& path : folders) {
    path.append("/").append(soname);
    if (access(path.c_str(), R_OK) == 0) return std::move(path);
  }
  return {};
}

void* FindSymbol(void* library, const char* symbol) {
  return dlsym(library, symbol);
}

}  // namespace reprise::device
