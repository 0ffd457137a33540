// An executor that writes down what it is told.

#ifndef REPRISE_TESTS_ENGINE_FAKE_EXECUTOR_H_
#define REPRISE_TESTS_ENGINE_FAKE_EXECUTOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "engine/replay/executor.h"

namespace reprise::engine {

// Runs nothing; every comparison is equal. `log` must outlive it.
class FakeExecutor : public Executor {
 public:
  struct Log {
    std::vector<std::pair<ValueId, uint64_t>> binds;
    std::vector<std::pair<uint32_t, std::vector<uint64_t>>> scalars;
    Fit fit = Fit::kBound;
    std::vector<std::pair<uint32_t, GeneratorState>> generator;
    std::vector<size_t> segments;
    std::vector<size_t> ops;
    std::vector<kernels::RangeCopy> copies;
    bool fail = false;
    int failing_ops = 0;               // so many calls of LaunchOp fail
    std::optional<uint32_t> stuck_at;  // launches of segments end there
  };

  explicit FakeExecutor(Log* log) : log_(log) {}

  void Bind(ValueId value, uint64_t origin) override {
    log_->binds.emplace_back(value, origin);
  }
  Fit SetScalars(uint32_t op, std::span<const uint64_t> bits) override {
    log_->scalars.emplace_back(op, std::vector(bits.begin(), bits.end()));
    return log_->fit;
  }
  void SetGenerator(uint32_t op, const GeneratorState& state) override {
    log_->generator.emplace_back(op, state);
  }
  Progress LaunchSegment(size_t segment, uint32_t first_op) override {
    if (log_->fail || log_->stuck_at.has_value()) {
      return {base::Fail(base::Code::kInternal, "told to fail"),
              log_->stuck_at.value_or(first_op)};
    }
    log_->segments.push_back(segment);
    return {};
  }
  base::Status LaunchOp(size_t op) override {
    if (log_->fail || log_->failing_ops-- > 0)
      return base::Fail(base::Code::kInternal, "told to fail");
    log_->ops.push_back(op);
    return {};
  }
  bool Touches(size_t, ValueId) const override { return true; }
  base::Status Copy(uint64_t, uint64_t, const kernels::Layout&) override {
    return {};
  }
  base::Status CopyAll(std::span<const kernels::RangeCopy> copies) override {
    if (log_ != nullptr && log_->fail) {
      return base::Fail(base::Code::kInternal, "told to fail");
    }
    if (log_ != nullptr) {
      log_->copies.insert(log_->copies.end(), copies.begin(), copies.end());
    }
    return {};
  }
  base::Status WaitFor(CUevent) override { return {}; }
  base::Status BeginComparing() override { return {}; }
  base::Status Compare(uint64_t, uint64_t, const kernels::Layout&, Alike,
                       uint32_t) override {
    return {};
  }
  base::Status EndComparing() override { return {}; }
  base::Result<std::optional<Verdict>> Poll(Patience) override {
    return Verdict{};
  }

 private:
  Log* log_;
};

}  // namespace reprise::engine

#endif  // REPRISE_TESTS_ENGINE_FAKE_EXECUTOR_H_
