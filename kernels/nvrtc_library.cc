#include "kernels/nvrtc_library.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "engine/device/library_identity.h"
#include "engine/device/shared_library.h"

namespace reprise::kernels {
namespace {

constexpr char kSoname[] = "libnvrtc.so.13";
constexpr char kNoNvrtc[] =
    "NVRTC of CUDA 13 was not found: install it (pip install "
    "\"nvidia-cuda-nvrtc==13.0.*\", or the CUDA toolkit), and name the folder "
    "of libnvrtc.so.13 in LD_LIBRARY_PATH";

// Which copy of NVRTC is used.
struct NvrtcFile {
  std::string path;
  std::string identity;
};

base::Result<NvrtcFile> FindNvrtc() {
  NvrtcFile file;
  file.path = device::LocateSharedLibrary(kSoname);
  auto identity = device::LibraryIdentity(file.path);
  if (!identity) {
    // Only the loader knows where it is.
    REPRISE_RETURN_IF_ERROR(device::OpenSharedLibrary(kSoname, kNoNvrtc));
    file.path = device::LocateSharedLibrary(kSoname);
    identity = device::LibraryIdentity(file.path);
  }
  if (!identity) return tl::unexpected(std::move(identity).error());
  file.identity = *std::move(identity);
  return file;
}

const base::Result<NvrtcFile>& TheNvrtcFile() {
  static const auto* const found = new base::Result<NvrtcFile>(FindNvrtc());
  return *found;
}

// In "lib64" or "targets/x86_64-linux/lib", and "include" is beside that.
std::vector<std::string> FindIncludePaths() {
  const base::Result<NvrtcFile>& file = TheNvrtcFile();
  if (!file) return {};
  std::error_code error;  // what cannot be looked at is not there
  std::filesystem::path library(file->path);
  for (const auto& path :
       {library, std::filesystem::canonical(library, error)}) {
    const std::filesystem::path headers =
        path.parent_path().parent_path() / "include";
    if (!std::filesystem::exists(headers / "cuda_fp16.h", error)) continue;
    std::vector<std::string> paths = {headers.native()};
    // The C++ library's own folder, which only nvcc knows by itself.
    if (std::filesystem::exists(headers / "cccl", error)) {
      paths.push_back(headers / "cccl");
    }
    return paths;
  }
  return {};
}

}  // namespace

base::Result<NvrtcLibrary> OpenNvrtc() {
  REPRISE_ASSIGN_OR_RETURN(const NvrtcFile& file, TheNvrtcFile());
  REPRISE_ASSIGN_OR_RETURN(void* library, device::OpenSharedLibrary(file.path));
  if (device::LibraryIdentity(file.path) != file.identity) {
    return base::Fail(base::Code::kUnavailable,
                      file.path +
                          " was replaced while the program ran; start it "
                          "again");
  }
  return NvrtcLibrary{file.path, library};
}

base::Result<std::string> NvrtcIdentity() {
  REPRISE_ASSIGN_OR_RETURN(const NvrtcFile& file, TheNvrtcFile());
  return file.identity;
}

const std::vector<std::string>& ToolkitIncludePaths() {
  static const auto* const found =
      new std::vector<std::string>(FindIncludePaths());
  return *found;
}

}  // namespace reprise::kernels
