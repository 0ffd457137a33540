// Records eager's launches on one stream and builds plans from them.

#ifndef REPRISE_ENGINE_BACKEND_CUDA_BACKEND_H_
#define REPRISE_ENGINE_BACKEND_CUDA_BACKEND_H_

#include <cuda.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/backend/cuda_executor.h"
#include "engine/device/driver.h"
#include "engine/device/launch_recorder.h"
#include "engine/program/launch_program.h"
#include "engine/program/program.h"
#include "engine/program/reach.h"
#include "engine/program/unwritten_words.h"
#include "engine/replay/backend.h"
#include "engine/trace/frontend.h"
#include "kernels/compare.h"

namespace reprise::engine {

// One a session. Borrows everything it is given; see Backend for threads.
class CudaBackend : public Backend {
 public:
  struct Options {
    uint64_t max_arena_bytes = 0;
    uint32_t segment_launches = 100;
    bool branches = false;  // see Branches; else a plan's launches are a line
    // At most so much does a private value take (Effects::Of); asked at each
    // build, on its thread. Null: there is none.
    std::function<uint64_t()> private_bytes = {};
    // Gives the comparison for validations; called by Instantiate, where the
    // first call may compile.
    std::function<base::Result<kernels::DeviceCompare*>()> compare;
  };

  CudaBackend(const CudaContext& context, Frontend* frontend, Options options)
      : context_(context), frontend_(frontend), options_(std::move(options)) {}

  base::Status StartRecording(Recording recording,
                              uint64_t pass_bytes) override;
  void StopRecording() override;
  base::Status BeginOp(const OpView& op) override;
  std::string EndOp(TracedOp& op) override;
  bool wants_call() const override { return false; }
  void Resting() override;
  std::optional<std::string> TakeForeignWork() override {
    return context_.recorder->TakeForeignWork();
  }
  bool Capturing() const override;
  Explained Explain(std::shared_ptr<const Trace> first,
                    const Trace& second) override;
  base::Result<InstanceParts> Instantiate(
      std::shared_ptr<const Program> program,
      std::shared_ptr<Ledger> arena) override;
  base::Result<Ledger::Handle> MakeArena(uint64_t size_bytes,
                                         size_t values) override;

 private:
  ArenaDevice Device() const;
  // `lasting`: addresses of memory that is no value of the trace.
  base::Result<std::vector<Reach>> ReachOf(
      const Trace& trace, const LaunchProgram& work,
      const std::vector<uint64_t>& lasting) const;

  CudaContext context_;
  Frontend* frontend_;
  Options options_;
  bool in_pool_ = false;
  UnwrittenWords unwritten_;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BACKEND_CUDA_BACKEND_H_
