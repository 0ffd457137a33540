// A program of eager ops on the simulated GPU, and the framework it runs in.

#ifndef REPRISE_TESTS_SIM_SIMULATED_PROGRAM_H_
#define REPRISE_TESTS_SIM_SIMULATED_PROGRAM_H_

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/engine/fake_frontend.h"
#include "tests/sim/simulated_gpu.h"
#include "tests/sim/simulated_memory.h"

namespace reprise::sim {

using engine::Allocation;
using engine::Block;
using engine::Operand;
using engine::OpId;
using engine::OpView;
using engine::ResultView;
using engine::StorageToken;
using engine::Token;

class SimulatedFrontend : public engine::FakeFrontend {
 public:
  base::Result<Block> Allocate(size_t size_bytes) override {
    if (allocations_left == 0) {
      return base::Fail(base::Code::kResourceExhausted, "told to fail");
    }
    --allocations_left;
    auto* lent = new Lent{this, Poisoned(size_bytes)};
    return Block(lent->address, lent, [](void* context) {
      const std::unique_ptr<Lent> lent(static_cast<Lent*>(context));
      lent->frontend->memory.Free(lent->address);
    });
  }

  // A private pool: until its end nothing that was freed is used again.
  base::Status BeginPrivatePool(uint64_t bytes) override {
    if (pool_fails) return base::Fail(base::Code::kInternal, "told to fail");
    return FakeFrontend::BeginPrivatePool(bytes);
  }
  void BeginAllocations() override { noting_ = true; }
  std::vector<Allocation> TakeAllocations() override {
    noting_ = false;
    return std::exchange(allocations, {});
  }
  bool OwnsAddress(uint64_t address) const override {
    return memory.Owns(address);
  }

  base::Result<std::shared_ptr<engine::MemoryWatch>> WatchMemory() override {
    if (watch_fails)
      return base::Fail(base::Code::kUnavailable, "told to fail");
    return memory.Watch();
  }
  engine::LibraryFrees* library_frees() override { return &frees; }
  bool LibraryIsFull() override { return library_is_full; }

  // For the program's ops.
  uint64_t AllocateForOp(size_t size_bytes) {
    const uint64_t address = Poisoned(size_bytes);
    if (noting_) allocations.push_back({address, size_bytes});
    return address;
  }

  bool pool_fails = false;
  bool watch_fails = false;
  bool library_is_full = false;
  engine::LibraryFrees frees;
  SimulatedMemory memory;

 private:
  struct Lent {
    SimulatedFrontend* frontend;
    uint64_t address;
  };

  uint64_t Poisoned(size_t size_bytes) {
    const uint64_t address = memory.Allocate(size_bytes);
    std::memset(reinterpret_cast<void*>(address), SimulatedMemory::kPoison,
                size_bytes);
    return address;
  }

  bool noting_ = false;
};

// A storage of floats, named by a number that is never used again.
struct SimulatedTensor {
  StorageToken storage = nullptr;
  uint64_t base = 0;

  float* data() const { return reinterpret_cast<float*>(base); }
};

// Ops on vectors of kElements floats. `around` sees each op before it runs: it
// calls what it is given, which runs the op, or not.
class SimulatedProgram {
 public:
  static constexpr int kElements = 32;
  static constexpr size_t kBytes = kElements * sizeof(float);

  // Runs the op and gives its results.
  using Eager = std::function<std::vector<SimulatedTensor>()>;
  using Around = std::function<std::vector<SimulatedTensor>(
      const OpView& view, const Eager& eager)>;

  SimulatedProgram(SimulatedGpu* gpu, SimulatedFrontend* frontend)
      : gpu_(gpu), frontend_(frontend) {}

  // A tensor that no op made.
  SimulatedTensor Make(float seed) {
    const SimulatedTensor tensor = Adopt(frontend_->memory.Allocate(kBytes));
    for (int i = 0; i < kElements; ++i) {
      tensor.data()[i] = seed + 0.5f * static_cast<float>(i);
    }
    return tensor;
  }
  void Drop(const SimulatedTensor& tensor) {
    frontend_->bases.erase(tensor.storage);
    frontend_->memory.Free(tensor.base);
  }

  SimulatedTensor Add(SimulatedTensor a, SimulatedTensor b) {
    return Run(1, {a, b}, false, [this, a, b] {
      const SimulatedTensor out = NewTensor();
      gpu_->Launch(add_, out.base, a.base, b.base, kElements);
      return std::vector{out};
    })[0];
  }
  SimulatedTensor Scale(SimulatedTensor a, float factor) {
    return ScaleBy(2, a, factor, factor);
  }
  // a / divisor, as a product with what the host has divided.
  SimulatedTensor Divide(SimulatedTensor a, float divisor) {
    return ScaleBy(9, a, divisor, 1.0f / divisor);
  }
  // What fits whole into a of `divisor`, by a kernel that holds its inverse,
  // too.
  SimulatedTensor FloorDivide(SimulatedTensor a, float divisor) {
    return Run(12, {a}, false,
               [this, a, divisor] {
                 const SimulatedTensor out = NewTensor();
                 gpu_->Launch(floor_divide_, kElements, out.base, divisor,
                              1.0f / divisor, a.base);
                 return std::vector{out};
               },
               {&divisor, 1})[0];
  }
  // a * root * root, as a product with what the host has multiplied.
  SimulatedTensor ScaleBySquare(SimulatedTensor a, float root) {
    return ScaleBy(10, a, root, root * root);
  }
  // Element i of a times those of `numbers` that are i modulo kElements.
  // Kernels take a few numbers each, and what the others left where there are
  // no more.
  SimulatedTensor ScaleEach(SimulatedTensor a,
                            const std::vector<float>& numbers) {
    return Run(
        11, {a}, false,
        [this, a, &numbers] {
          const SimulatedTensor out = NewTensor();
          gpu_->Copy(out.base, a.base, kBytes);
          ++list_.unwritten;
          list_.out = out.base;
          for (size_t begin = 0; begin < numbers.size();
               begin += kNumbersALaunch) {
            const size_t count =
                std::min(kNumbersALaunch, numbers.size() - begin);
            std::copy_n(&numbers[begin], count, list_.numbers);
            list_.begin = static_cast<int>(begin);
            list_.count = static_cast<int>(count);
            gpu_->Launch(scale_each_, list_);
          }
          return std::vector{out};
        },
        numbers)[0];
  }
  void Negate(SimulatedTensor a) {
    Run(3, {a}, true, [this, a] {
      gpu_->Launch(negate_, a.base, kElements);
      return std::vector<SimulatedTensor>();
    });
  }
  SimulatedTensor Zeros() {
    return Run(4, {}, false, [this] {
      const SimulatedTensor out = NewTensor();
      gpu_->Fill(out.base, 0, kBytes);
      return std::vector{out};
    })[0];
  }
  SimulatedTensor Clone(SimulatedTensor a) {
    return Run(5, {a}, false, [this, a] {
      const SimulatedTensor out = NewTensor();
      gpu_->Copy(out.base, a.base, kBytes);
      return std::vector{out};
    })[0];
  }
  // 2 a + b by way of a temporary.
  SimulatedTensor TwiceAdd(SimulatedTensor a, SimulatedTensor b) {
    return Run(6, {a, b}, false, [this, a, b] {
      const uint64_t temporary = frontend_->AllocateForOp(kBytes);
      gpu_->Launch(scale_, kElements, temporary, 2.0f, a.base);
      const SimulatedTensor out = NewTensor();
      gpu_->Launch(add_, out.base, temporary, b.base, kElements);
      frontend_->memory.Free(temporary);
      return std::vector{out};
    })[0];
  }
  // The same by way of memory that a library keeps from its first call on.
  SimulatedTensor TwiceAddInWorkspace(SimulatedTensor a, SimulatedTensor b) {
    return Run(13, {a, b}, false, [this, a, b] {
      if (workspace_ == 0) workspace_ = frontend_->memory.Allocate(kBytes);
      gpu_->Launch(scale_, kElements, workspace_, 2.0f, a.base);
      const SimulatedTensor out = NewTensor();
      gpu_->Launch(add_, out.base, workspace_, b.base, kElements);
      return std::vector{out};
    })[0];
  }
  // Fills a temporary of many times a tensor's size and frees it before it
  // makes its result.
  SimulatedTensor CloneAfterLargeTemporary(SimulatedTensor a) {
    return Run(7, {a}, false, [this, a] {
      const uint64_t temporary = frontend_->AllocateForOp(kLargeBytes);
      gpu_->Fill(temporary, 0x11, kLargeBytes);
      frontend_->memory.Free(temporary);
      const SimulatedTensor out = NewTensor();
      gpu_->Copy(out.base, a.base, kBytes);
      return std::vector{out};
    })[0];
  }
  // The host looks.
  float First(SimulatedTensor a) {
    float first = 0;
    Run(8, {a}, false, [this, a, &first] {
      gpu_->Read(&first, a.base, sizeof first);
      return std::vector<SimulatedTensor>();
    });
    return first;
  }

  SimulatedTensor Adopt(uint64_t base) {
    const SimulatedTensor tensor{Token(++tokens_), base};
    frontend_->bases[tensor.storage] = base;
    return tensor;
  }

  static constexpr size_t kLargeBytes = 20 * 512;
  Around around;
  bool may_use_library_plans = false;  // ops from now on

 private:
  static float* Floats(uint64_t address) {
    return reinterpret_cast<float*>(address);
  }

  SimulatedTensor NewTensor() {
    return Adopt(frontend_->AllocateForOp(kBytes));
  }

  // The op takes `number` and hands its kernel `factor`.
  SimulatedTensor ScaleBy(OpId op, SimulatedTensor a, float number,
                          float factor) {
    return Run(op, {a}, false,
               [this, a, factor] {
                 const SimulatedTensor out = NewTensor();
                 gpu_->Launch(scale_, kElements, out.base, factor, a.base);
                 return std::vector{out};
               },
               {&number, 1})[0];
  }

  std::vector<SimulatedTensor> Run(OpId op,
                                   const std::vector<SimulatedTensor>& inputs,
                                   bool writes_first, const Eager& eager,
                                   std::span<const float> numbers = {}) {
    if (!around) return eager();
    static constexpr int64_t kSizes[] = {kElements};
    static constexpr int64_t kStrides[] = {1};
    std::vector<uint64_t> words = {op, inputs.size()};
    std::vector<engine::Scalar> scalars;
    for (const float number : numbers) {
      scalars.push_back({static_cast<uint32_t>(words.size()),
                         engine::NumberType::kFloat32,
                         std::bit_cast<uint32_t>(number)});
      words.push_back(scalars.back().bits);
    }
    std::vector<Operand> operands;
    for (const SimulatedTensor& input : inputs) {
      Operand& operand = operands.emplace_back();
      operand.storage = input.storage;
      operand.base = input.base;
      operand.storage_bytes = kBytes;
      operand.element_bytes = sizeof(float);
      operand.sizes = kSizes;
      operand.strides = kStrides;
    }
    if (writes_first) operands[0].written = true;
    OpView view;
    view.scalars = scalars;
    view.op = op;
    view.words = words;
    view.operands = operands;
    view.may_use_library_plans = may_use_library_plans;
    return around(view, eager);
  }

  static constexpr size_t kNumbersALaunch = 5;
  struct ListParams {
    uint64_t out = 0;
    uint64_t unwritten = 0;
    float numbers[kNumbersALaunch] = {};
    int begin = 0;
    int count = 0;
  };

  SimulatedGpu* gpu_;
  SimulatedFrontend* frontend_;
  uint64_t tokens_ = 0;
  uint64_t workspace_ = 0;  // none
  ListParams list_;         // as the last launch left it
  const SimulatedGpu::Kernel add_ = SimulatedGpu::MakeKernel(
      +[](uint64_t out, uint64_t a, uint64_t b, int elements) {
        for (int i = 0; i < elements; ++i) {
          Floats(out)[i] = Floats(a)[i] + Floats(b)[i];
        }
      });
  const SimulatedGpu::Kernel scale_ = SimulatedGpu::MakeKernel(
      +[](int elements, uint64_t out, float factor, uint64_t a) {
        for (int i = 0; i < elements; ++i) {
          Floats(out)[i] = factor * Floats(a)[i];
        }
      });
  const SimulatedGpu::Kernel floor_divide_ =
      SimulatedGpu::MakeKernel(+[](int elements, uint64_t out, float divisor,
                                   float inverse, uint64_t a) {
        for (int i = 0; i < elements; ++i) {
          const float whole = Floats(a)[i] - std::fmod(Floats(a)[i], divisor);
          Floats(out)[i] = whole * inverse;
        }
      });
  const SimulatedGpu::Kernel scale_each_ =
      SimulatedGpu::MakeKernel(+[](ListParams params) {
        for (int i = 0; i < params.count; ++i) {
          Floats(params.out)[(params.begin + i) % kElements] *=
              params.numbers[i];
        }
      });
  const SimulatedGpu::Kernel negate_ =
      SimulatedGpu::MakeKernel(+[](uint64_t a, int elements) {
        for (int i = 0; i < elements; ++i) Floats(a)[i] = -Floats(a)[i];
      });
};

// How results are described to a recorder or a session.
inline std::vector<ResultView> ResultViewsOf(
    const std::vector<SimulatedTensor>& tensors) {
  static constexpr int64_t kSizes[] = {SimulatedProgram::kElements};
  static constexpr int64_t kStrides[] = {1};
  std::vector<ResultView> views;
  for (const SimulatedTensor& tensor : tensors) {
    ResultView& view = views.emplace_back();
    view.kind = ResultView::Kind::kTensor;
    view.storage = tensor.storage;
    view.base = tensor.base;
    view.storage_bytes = SimulatedProgram::kBytes;
    view.element_bytes = sizeof(float);
    view.sizes = kSizes;
    view.strides = kStrides;
  }
  return views;
}

// The device's comparison, in stream order.
class SimulatedCompare : public kernels::DeviceCompare {
 public:
  explicit SimulatedCompare(SimulatedStreams* streams) : streams_(streams) {}

  base::Status Enqueue(uint64_t left, uint64_t right,
                       const kernels::Layout& layout, uint64_t flag,
                       uint32_t tag, CUstream stream) override {
    streams_->Enqueue(stream, [=] {
      auto* word = reinterpret_cast<uint32_t*>(flag);
      if (*word == 0 &&
          !kernels::EqualOnHost(reinterpret_cast<const void*>(left),
                                reinterpret_cast<const void*>(right), layout)) {
        *word = 1 + tag;
      }
    });
    return {};
  }

  base::Status EnqueueClose(uint64_t left, uint64_t right, uint64_t other,
                            const kernels::Layout& layout, uint64_t flag,
                            uint32_t tag, CUstream stream) override {
    streams_->Enqueue(stream, [=] {
      auto* word = reinterpret_cast<uint32_t*>(flag);
      if (*word == 0 &&
          !kernels::CloseOnHost(reinterpret_cast<const void*>(left),
                                reinterpret_cast<const void*>(right),
                                reinterpret_cast<const void*>(other), layout)) {
        *word = 1 + tag;
      }
    });
    return {};
  }

  base::Status Copy(uint64_t to, uint64_t from, const kernels::Layout& layout,
                    CUstream stream) override {
    streams_->Enqueue(stream, [=] {
      kernels::CopyOnHost(reinterpret_cast<void*>(to),
                          reinterpret_cast<const void*>(from), layout);
    });
    return {};
  }

  base::Status CopyAll(std::span<const kernels::RangeCopy> copies,
                       CUstream stream) override {
    const std::vector<kernels::RangeCopy> all(copies.begin(), copies.end());
    streams_->Enqueue(stream, [all] {
      for (const kernels::RangeCopy& copy : all) {
        std::memcpy(reinterpret_cast<void*>(copy.to),
                    reinterpret_cast<const void*>(copy.from), copy.bytes);
      }
    });
    return {};
  }

 private:
  SimulatedStreams* streams_;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_SIMULATED_PROGRAM_H_
