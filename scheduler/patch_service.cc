#include "scheduler/patch_service.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/device/patched_graph.h"
#include "engine/device/relaxed_capture.h"
#include "kernels/table_source.h"
#include "kernels/twin.h"
#include "scheduler/patch_probe.h"

namespace reprise::scheduler {

using base::Code;
using base::Patching;
using base::Result;
using base::Status;

namespace {

// More needs an attribute of the function's.
constexpr uint32_t kMostSharedBytes = 48 << 10;
constexpr uint32_t kMostTableBytes = kernels::kTableBytes.back();

bool MayHaveTwin(const engine::Node& node) {
  return node.kernel != nullptr && node.kernel->source() != nullptr &&
         node.image_bytes > 0 && node.shared_bytes <= kMostSharedBytes &&
         !node.clustered() && node.cooperative == 0 && node.programmatic == 0;
}

// What the launch that writes so many bytes carries.
uint32_t CarriedBytes(uint32_t bytes) {
  return *std::lower_bound(kernels::kTableBytes.begin(),
                           std::prev(kernels::kTableBytes.end()), bytes);
}

std::vector<device::ParamSpan> WriterParams(uint32_t bytes) {
  return {{0, bytes}, {bytes, 8}, {bytes + 8, 4}};
}

}  // namespace

PatchService::PatchService(engine::BatchDevice* device,
                           engine::CompileService* compiler,
                           base::TaskRunner* queue, Patching wanted,
                           std::optional<PatchMeasurement> measured)
    : device_(device),
      compiler_(compiler),
      queue_(queue),
      wanted_(wanted),
      measured_(measured.has_value()),
      measuring_(measured.has_value()) {
  if (measured.has_value()) measurement_ = *std::move(measured);
}

const PatchMeasurement* PatchService::Measured() {
  // Acquire: it was written before.
  if (measured_.load(std::memory_order_acquire)) return &measurement_;
  if (!device_->on_host() &&
      !measuring_.exchange(true, std::memory_order_relaxed)) {
    queue_->Post([this] { Measure(); });
  }
  return nullptr;
}

void PatchService::Measure() {
  std::string why_no_table;
  if (auto costs = Probe(why_no_table)) {
    measurement_.costs = *costs;
    if (!why_no_table.empty()) {
      measurement_.failure = "a table: " + why_no_table;
    }
  } else {
    measurement_.failure =
        "measuring what patching costs: " + costs.error().message();
  }
  measured_.store(true, std::memory_order_release);
}

Result<PatchCosts> PatchService::Probe(std::string& why_no_table) {
  const engine::DeviceScope scope(*device_);
  REPRISE_RETURN_IF_ERROR(scope.status());
  const device::RelaxedCapture relaxed(*device_->context().driver);
  PatchProbe::Kernels probed;
  REPRISE_ASSIGN_OR_RETURN(
      probed.axpy, TableKernel("Axpy", {{0, 4}, {8, 8}, {16, 8}, {24, 4}}));
  REPRISE_ASSIGN_OR_RETURN(probed.by_table,
                           TableKernel("AxpyByTable", {{0, 8}}));
  for (const uint32_t bytes : {PatchProbe::kFewBytes, PatchProbe::kManyBytes}) {
    if (auto writer = Writer(bytes)) {
      probed.writers.push_back(*std::move(writer));
    } else {
      why_no_table = writer.error().message();
    }
  }
  return PatchProbe::Measure(*device_->context().driver, probed);
}

PatchShape PatchService::ShapeOf(const std::vector<engine::Node>& nodes) const {
  PatchShape shape{.launches = nodes.size()};
  if (device_->on_host()) return shape;
  uint32_t bytes = 0;
  for (const engine::Node& node : nodes) {
    if (!MayHaveTwin(node)) continue;
    const uint32_t end = device::TableEnd(bytes, node.image_bytes);
    if (end > kMostTableBytes) continue;
    bytes = end;
    ++shape.in_table;
  }
  shape.table_bytes = CarriedBytes(bytes);
  return shape;
}

Result<engine::Mechanism> PatchService::TableFor(
    const std::vector<engine::Node>& nodes) {
  const engine::DeviceScope scope(*device_);
  REPRISE_RETURN_IF_ERROR(scope.status());
  engine::Mechanism mechanism{.patching = Patching::kTable};
  mechanism.twins.resize(nodes.size());
  std::map<const engine::KernelCode*,
           Result<std::shared_ptr<engine::KernelCode>>>
      twins;
  uint32_t bytes = 0;
  std::string why = "no launch has a kernel from source";
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!MayHaveTwin(nodes[i])) continue;
    const uint32_t end = device::TableEnd(bytes, nodes[i].image_bytes);
    if (end > kMostTableBytes) continue;
    const engine::KernelCode* kernel = nodes[i].kernel;
    auto found = twins.find(kernel);
    if (found == twins.end()) {
      found = twins.emplace(kernel, TwinOf(*kernel)).first;
    }
    if (!found->second) {
      why = found->second.error().message();
      continue;
    }
    mechanism.twins[i] = *found->second;
    bytes = end;
  }
  if (bytes == 0) return base::Fail(Code::kUnavailable, why);
  REPRISE_ASSIGN_OR_RETURN(mechanism.writer, Writer(bytes));
  return mechanism;
}

Result<std::shared_ptr<engine::KernelCode>> PatchService::Writer(
    uint32_t bytes) {
  const uint32_t size = CarriedBytes(bytes);
  return TableKernel("Write<" + std::to_string(size) + ">", WriterParams(size));
}

Result<std::shared_ptr<engine::KernelCode>> PatchService::TableKernel(
    const std::string& name, std::vector<device::ParamSpan> params) {
  const std::string expression = "reprise_table::" + name;
  const auto code = compiler_->Compile({.source = kernels::kTableSource,
                                        .name = "reprise_table.cu",
                                        .name_expressions = {expression}},
                                       expression, std::move(params));
  REPRISE_RETURN_IF_ERROR(code->Wait());
  return code;
}

Result<std::shared_ptr<engine::KernelCode>> PatchService::TwinOf(
    const engine::KernelCode& kernel) {
  const device::Driver& driver = *device_->context().driver;
  int threads = 0;
  REPRISE_CU(driver, cuFuncGetAttribute(&threads,
                                        CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
                                        kernel.function()));
  kernels::Twin twin =
      kernels::TwinOf(*kernel.source(), kernel.name(), threads);
  const auto code = compiler_->Compile(
      std::move(twin.source), twin.name, {{0, 8}}, {},
      [name = kernel.name()](const kernels::CompiledCode& compiled) -> Status {
        if (!kernels::HasVariables(compiled)) return {};
        return base::Fail(Code::kUnavailable,
                          "kernel '" + name +
                              "' uses variables of its source, of which a "
                              "twin would have others");
      });
  if (Status ready = code->Wait(); !ready) {
    return tl::unexpected(
        ready.error().In("no twin of '" + kernel.name() + "'"));
  }
  return code;
}

}  // namespace reprise::scheduler
