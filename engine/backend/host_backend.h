// Records calls and runs them in order: all logic above the device, without
// one.

#ifndef REPRISE_ENGINE_BACKEND_HOST_BACKEND_H_
#define REPRISE_ENGINE_BACKEND_HOST_BACKEND_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/base/heap_trim.h"
#include "engine/program/program.h"
#include "engine/replay/backend.h"
#include "engine/trace/frontend.h"

namespace reprise::engine {

// What Executor::Compare asks, of memory of the host.
bool AlikeOnHost(uint64_t eager, uint64_t replayed,
                 const kernels::Layout& layout, Executor::Alike alike);

// Plans made here call the recorded ops on memory of the arena, in program
// order, on the thread that launches. For correctness, not for speed. Borrows
// the frontend.
class HostBackend : public Backend {
 public:
  struct Options {
    uint64_t max_arena_bytes = 0;
    uint32_t segment_ops = 8;
    // At most so much does a private value take (Effects::Of); asked at each
    // build, on its thread. Null: there is none.
    std::function<uint64_t()> private_bytes = {};
  };

  HostBackend(Frontend* frontend, const Options& options)
      : frontend_(frontend), options_(options) {}

  base::Status StartRecording(Recording, uint64_t) override { return {}; }
  void StopRecording() override { heap_.AfterLastingBlocks(); }
  base::Status BeginOp(const OpView&) override { return {}; }
  std::string EndOp(TracedOp& op) override;
  bool wants_call() const override { return true; }
  bool sees_memory() const override { return true; }
  void Resting() override {
    if (++heads_ % 64 == 0) heap_.AfterLastingBlocks();
  }
  bool Capturing() const override { return false; }
  Explained Explain(std::shared_ptr<const Trace> first,
                    const Trace& second) override;
  base::Result<InstanceParts> Instantiate(
      std::shared_ptr<const Program> program,
      std::shared_ptr<Ledger> arena) override;
  base::Result<Ledger::Handle> MakeArena(uint64_t size_bytes,
                                         size_t values) override;

 private:
  Frontend* frontend_;
  Options options_;
  // What is kept of traces lies beside the program's tensors.
  base::HeapTrim heap_;
  uint32_t heads_ = 0;
};

}  // namespace reprise::engine

#endif  // REPRISE_ENGINE_BACKEND_HOST_BACKEND_H_
