#include "kernels/compare.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "engine/base/float16.h"
#include "engine/device/launch_recorder.h"
#include "engine/device/unique_handle.h"
#include "kernels/byte_runs.h"
#include "kernels/compare_source.h"
#include "kernels/nvrtc.h"

namespace reprise::kernels {
namespace {

using base::Status;

constexpr int kVectorBytes = 16;
constexpr unsigned kBlockThreads = 256;
constexpr int kUnitsPerThread = 4;
constexpr unsigned kBlocksPerProcessor = 8;

// As in kCompareSource.
struct CompareDims {
  int rank = 0;
  int64_t sizes[kCompareMaxRank] = {};
  int64_t strides_bytes[kCompareMaxRank] = {};
};

struct CopyRanges {
  RangeCopy ranges[kMostRanges] = {};
};

// The largest power of two, 16 at most, that divides all that is or-ed in
// `bits`: how many bytes can be read at once.
int UnitBytes(uint64_t bits) {
  return 1 << std::min(std::countr_zero(bits),
                       std::countr_zero(unsigned{kVectorBytes}));
}

// The runs, with the units of a run as their innermost dimension.
CompareDims DimsOf(const ByteRuns& runs, int unit_bytes) {
  CompareDims dims;
  const auto add = [&dims](int64_t size, int64_t stride_bytes) {
    dims.sizes[dims.rank] = size;
    dims.strides_bytes[dims.rank] = stride_bytes;
    ++dims.rank;
  };
  add(runs.run_bytes / unit_bytes, unit_bytes);
  for (int i = 0; i < runs.rank; ++i) {
    add(runs.sizes[i], runs.strides_bytes[i]);
  }
  return dims;
}

// Calls `visit` with the offset and the bytes of each run, until it says no;
// true if it never did.
template <typename Visit>
bool EachRun(const Layout& layout, Visit visit) {
  const ByteRuns runs = ByteRunsOf(layout);
  if (runs.run_bytes == 0) return true;
  std::array<int64_t, kMaxRank> index{};
  int64_t offset = 0;
  while (true) {
    if (!visit(offset, static_cast<size_t>(runs.run_bytes))) return false;
    int d = 0;
    for (; d < runs.rank; ++d) {
      offset += runs.strides_bytes[d];
      if (++index[d] < runs.sizes[d]) break;
      offset -= runs.sizes[d] * runs.strides_bytes[d];
      index[d] = 0;
    }
    if (d == runs.rank) return true;
  }
}

// A float of that type at that place, as a double, which holds them all.
double NumberAt(const char* place, Element element) {
  const auto load = [place]<typename T>(T value) {
    std::memcpy(&value, place, sizeof value);
    return value;
  };
  switch (element) {
    case Element::kBits:
      break;
    case Element::kFloat16:
      return base::FromFloat16(load(uint16_t{}));
    case Element::kBFloat16:
      return base::FromBFloat16(load(uint16_t{}));
    case Element::kFloat32:
      return load(float{});
    case Element::kFloat64:
      return load(double{});
  }
  return 0;
}

bool Close(double left, double right, double most) {
  if (!std::isfinite(left) || !std::isfinite(right)) {
    return left == right || (std::isnan(left) && std::isnan(right));
  }
  return std::abs(left - right) <= most;
}

class NvrtcDeviceCompare final : public DeviceCompare {
 public:
  NvrtcDeviceCompare(const device::Driver& driver,
                     device::UniqueLibrary library, unsigned most_blocks)
      : driver_(driver),
        library_(std::move(library)),
        most_blocks_(most_blocks) {}

  Status FindKernels() {
    REPRISE_RETURN_IF_ERROR(Find(&dense_, "compare_dense"));
    REPRISE_RETURN_IF_ERROR(Find(&copy_ranges_, "copy_ranges"));
    for (size_t i = 0; i < kUnits; ++i) {
      const std::string unit = std::to_string(1 << i);
      REPRISE_RETURN_IF_ERROR(Find(&strided_[i], "compare_strided_" + unit));
      REPRISE_RETURN_IF_ERROR(Find(&copy_strided_[i], "copy_strided_" + unit));
    }
    for (size_t i = 0; i < kFloats.size(); ++i) {
      REPRISE_RETURN_IF_ERROR(
          Find(&close_[i], std::string("close_") + kFloats[i]));
    }
    return {};
  }

  Status Enqueue(uint64_t left, uint64_t right, const Layout& layout,
                 uint64_t flag, uint32_t tag, CUstream stream) override {
    const device::LaunchRecorder::Hidden hidden;
    const ByteRuns runs = ByteRunsOf(layout);
    if (runs.runs() == 0) return {};
    uint32_t raised = 1 + tag;
    if (runs.rank == 0 && (left | right) % kVectorBytes == 0) {
      uint64_t vectors = runs.run_bytes / kVectorBytes;
      uint64_t tail_bytes = runs.run_bytes % kVectorBytes;
      void* params[] = {&left, &right, &vectors, &tail_bytes, &flag, &raised};
      return Launch(dense_, vectors, params, stream);
    }
    Units units = UnitsOf(runs, left | right);
    void* params[] = {&left, &right, &units.dims, &units.count, &flag, &raised};
    return Launch(strided_[units.kernel], units.count, params, stream);
  }

  Status EnqueueClose(uint64_t left, uint64_t right, uint64_t other,
                      const Layout& layout, uint64_t flag, uint32_t tag,
                      CUstream stream) override {
    if (layout.element == Element::kBits) {
      return Enqueue(left, right, layout, flag, tag, stream);
    }
    const device::LaunchRecorder::Hidden hidden;
    const ByteRuns runs = ByteRunsOf(layout);
    if (runs.runs() == 0) return {};
    const auto bytes = static_cast<int>(layout.element_bytes);
    CompareDims dims = DimsOf(runs, bytes);
    auto count = static_cast<uint64_t>(runs.runs()) * (runs.run_bytes / bytes);
    const Closeness closeness = ClosenessOf(layout.element);
    double share = closeness.share;
    double rounding = closeness.rounding;
    double spreads = kSpreads;
    uint32_t raised = 1 + tag;
    void* params[] = {&left,  &right,    &other,   &dims, &count,
                      &share, &rounding, &spreads, &flag, &raised};
    // Element::kBits has none.
    const CUkernel kernel = close_[static_cast<size_t>(layout.element) - 1];
    return Launch(kernel, 1, kCloseThreads, params, stream);
  }

  Status Copy(uint64_t to, uint64_t from, const Layout& layout,
              CUstream stream) override {
    const device::LaunchRecorder::Hidden hidden;
    const ByteRuns runs = ByteRunsOf(layout);
    if (runs.runs() == 0) return {};
    Units units = UnitsOf(runs, to | from);
    void* params[] = {&to, &from, &units.dims, &units.count};
    return Launch(copy_strided_[units.kernel], units.count, params, stream);
  }

  Status CopyAll(std::span<const RangeCopy> copies, CUstream stream) override {
    const device::LaunchRecorder::Hidden hidden;
    while (!copies.empty()) {
      const auto now =
          copies.first(std::min<size_t>(copies.size(), kMostRanges));
      CopyRanges all;
      std::ranges::copy(now, all.ranges);
      void* params[] = {&all};
      REPRISE_RETURN_IF_ERROR(Launch(copy_ranges_,
                                     static_cast<unsigned>(now.size()),
                                     kBlockThreads, params, stream));
      copies = copies.subspan(now.size());
    }
    return {};
  }

 private:
  // What a strided kernel goes through, and which one it is.
  struct Units {
    CompareDims dims;
    uint64_t count = 0;
    size_t kernel = 0;
  };
  static constexpr size_t kUnits = 5;  // of 1, 2, 4, 8 and 16 bytes
  // In the order of Element.
  static constexpr std::array<const char*, 4> kFloats = {"float16", "bfloat16",
                                                         "float32", "float64"};
  static constexpr unsigned kCloseThreads = 1024;

  // `addresses`: of both tensors, or-ed.
  static Units UnitsOf(const ByteRuns& runs, uint64_t addresses) {
    uint64_t bits = addresses | static_cast<uint64_t>(runs.run_bytes);
    for (int i = 0; i < runs.rank; ++i) {
      bits |= static_cast<uint64_t>(runs.strides_bytes[i]);
    }
    const int unit_bytes = UnitBytes(bits);
    return {
        DimsOf(runs, unit_bytes),
        static_cast<uint64_t>(runs.runs()) * (runs.run_bytes / unit_bytes),
        static_cast<size_t>(std::countr_zero(unsigned(unit_bytes))),
    };
  }

  Status Find(CUkernel* kernel, const std::string& name) {
    REPRISE_CU(driver_,
               cuLibraryGetKernel(kernel, library_.get(), name.c_str()));
    return {};
  }
  Status Launch(CUkernel kernel, uint64_t units, void** params,
                CUstream stream) {
    constexpr uint64_t kUnitsPerBlock =
        uint64_t{kBlockThreads} * kUnitsPerThread;
    const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(
        (units + kUnitsPerBlock - 1) / kUnitsPerBlock, 1, most_blocks_));
    return Launch(kernel, blocks, kBlockThreads, params, stream);
  }
  Status Launch(CUkernel kernel, unsigned blocks, unsigned threads,
                void** params, CUstream stream) {
    CUlaunchConfig config{};
    config.gridDimX = blocks;
    config.gridDimY = 1;
    config.gridDimZ = 1;
    config.blockDimX = threads;
    config.blockDimY = 1;
    config.blockDimZ = 1;
    config.hStream = stream;
    return device::Check(
        driver_,
        driver_.cuLaunchKernelEx(&config, reinterpret_cast<CUfunction>(kernel),
                                 params, nullptr),
        "cuLaunchKernelEx");
  }

  const device::Driver& driver_;
  const device::UniqueLibrary library_;
  const unsigned most_blocks_;
  CUkernel dense_ = nullptr;
  CUkernel copy_ranges_ = nullptr;
  std::array<CUkernel, kUnits> strided_{};
  std::array<CUkernel, kUnits> copy_strided_{};
  std::array<CUkernel, kFloats.size()> close_{};
};

}  // namespace

base::Result<std::unique_ptr<DeviceCompare>> DeviceCompare::Create(
    const device::Driver& driver, CUdevice device) {
  const device::LaunchRecorder::Hidden hidden;
  REPRISE_ASSIGN_OR_RETURN(const Nvrtc* nvrtc, Nvrtc::Load());
  return Create(driver, device, *nvrtc);
}

base::Result<std::unique_ptr<DeviceCompare>> DeviceCompare::Create(
    const device::Driver& driver, CUdevice device, const Nvrtc& nvrtc) {
  const device::LaunchRecorder::Hidden hidden;
  int major = 0;
  int minor = 0;
  int processors = 0;
  REPRISE_CU(driver,
             cuDeviceGetAttribute(
                 &major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
  REPRISE_CU(driver,
             cuDeviceGetAttribute(
                 &minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device));
  REPRISE_CU(driver, cuDeviceGetAttribute(
                         &processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
                         device));
  REPRISE_ASSIGN_OR_RETURN(
      const CompiledCode code,
      nvrtc.Compile({.source = kCompareSource,
                     .name = "reprise_compare.cu",
                     .architecture = "sm_" + std::to_string(major) +
                                     std::to_string(minor)}));
  CUlibrary library = nullptr;
  REPRISE_CU(driver, cuLibraryLoadData(&library, code.image.data(), nullptr,
                                       nullptr, 0, nullptr, nullptr, 0));
  auto made = std::make_unique<NvrtcDeviceCompare>(
      driver, device::UniqueLibrary(driver, library),
      static_cast<unsigned>(processors) * kBlocksPerProcessor);
  REPRISE_RETURN_IF_ERROR(made->FindKernels());
  return made;
}

bool EqualOnHost(const void* left, const void* right, const Layout& layout) {
  return EachRun(layout, [=](int64_t offset, size_t bytes) {
    return std::memcmp(static_cast<const char*>(left) + offset,
                       static_cast<const char*>(right) + offset, bytes) == 0;
  });
}

bool CloseOnHost(const void* left, const void* right, const void* other,
                 const Layout& layout) {
  if (layout.element == Element::kBits) return EqualOnHost(left, right, layout);
  // `visit` with both numbers at each place, until it says no.
  const auto each = [&layout](const void* one, const void* two, auto visit) {
    const auto at = [&layout](const void* base, int64_t offset) {
      return NumberAt(static_cast<const char*>(base) + offset, layout.element);
    };
    return EachRun(layout, [&](int64_t offset, size_t bytes) {
      for (size_t i = 0; i < bytes; i += layout.element_bytes) {
        const int64_t place = offset + static_cast<int64_t>(i);
        if (!visit(at(one, place), at(two, place))) return false;
      }
      return true;
    });
  };
  double largest = 0;
  each(left, left, [&](double value, double) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
    return true;
  });
  const Closeness closeness = ClosenessOf(layout.element);
  double most = closeness.share * largest;
  if (other != nullptr) {
    double spread = 0;
    each(right, other, [&](double one, double two) {
      const double apart = std::abs(one - two);
      if (std::isfinite(apart)) spread = std::max(spread, apart);
      return true;
    });
    most = std::min(most,
                    kSpreads * std::max(spread, closeness.rounding * largest));
  }
  return each(left, right,
              [most](double one, double two) { return Close(one, two, most); });
}

void CopyOnHost(void* to, const void* from, const Layout& layout) {
  EachRun(layout, [=](int64_t offset, size_t bytes) {
    std::memcpy(static_cast<char*>(to) + offset,
                static_cast<const char*>(from) + offset, bytes);
    return true;
  });
}

}  // namespace reprise::kernels
