#include "scheduler/batch_checks.h"

#include <cstring>
#include <string>

#include "engine/batch/batch_event.h"
#include "engine/batch/kernel_code.h"

namespace reprise::scheduler {

using base::Code;
using base::Status;

namespace {

std::string PlaceOf(const engine::Node& node, size_t launch) {
  const char* kind = node.kind == engine::Node::Kind::kCopy   ? "copy"
                     : node.kind == engine::Node::Kind::kFill ? "fill"
                                                              : "";
  return "launch " + std::to_string(launch) + " (" +
         (node.kernel != nullptr ? "kernel '" + node.kernel->name() + "'"
                                 : kind) +
         ")";
}

// Where argument `index` of a kernel, copy or fill lies in the node's image.
uint32_t OffsetOf(const engine::Node& node, size_t index) {
  if (node.kernel != nullptr) {
    return (*node.kernel->params())[index].offset_bytes;
  }
  return static_cast<uint32_t>(index * sizeof(void*));
}

}  // namespace

Status BatchChecks::Check(const engine::BatchRecord& record) const {
  if (record.mistake().has_value()) {
    return base::Fail(Code::kInvalidArgument, *record.mistake());
  }
  for (size_t i = 0; i < record.nodes().size(); ++i) {
    const engine::Node& node = record.nodes()[i];
    if (node.kind != engine::Node::Kind::kKernel) continue;
    const auto place = [&] { return PlaceOf(node, i); };
    if (Status compiled = node.kernel->Wait(); !compiled) {
      return tl::unexpected(compiled.error().In(place()));
    }
    if ((node.kernel->host() != nullptr) != on_host_) {
      return base::Fail(
          Code::kInvalidArgument,
          place() + (on_host_
                         ? " is of a GPU, and the stream of a host runtime: "
                           "make it with the stream's runtime (HostKernel)"
                         : " is a function of the host, and the stream of a "
                           "GPU: make it with the stream's runtime "
                           "(CompileKernel, AdoptKernel)"));
    }
    if (node.kernel->context() != device_.context().context) {
      return base::Fail(Code::kInvalidArgument,
                        place() +
                            " is of another runtime's device or context than "
                            "the stream: make it with the stream's runtime");
    }
    if (Status admitted = device_.Admit(node); !admitted) {
      return tl::unexpected(admitted.error().In(place()));
    }
  }
  return {};
}

Status BatchChecks::CheckMemory(const std::vector<engine::Node>& nodes,
                                const std::vector<engine::Access>& accesses,
                                const std::vector<std::byte>& image) const {
  if (!on_host_) return {};
  for (size_t i = 0; i < nodes.size(); ++i) {
    const engine::Node& node = nodes[i];
    const auto check = [&](size_t argument, uint64_t bytes) -> Status {
      const void* begin = nullptr;
      std::memcpy(&begin,
                  image.data() + node.image_begin + OffsetOf(node, argument),
                  sizeof begin);
      Status admitted = device_.AdmitMemory(begin, bytes);
      if (admitted) return admitted;
      return tl::unexpected(admitted.error()
                                .In("argument " + std::to_string(argument))
                                .In(PlaceOf(node, i)));
    };
    for (uint32_t a = 0; a < node.accesses; ++a) {
      const engine::Access& access = accesses[node.access_begin + a];
      REPRISE_RETURN_IF_ERROR(check(access.argument, access.bytes));
    }
    if (node.kernel == nullptr) continue;
    // Of a plain pointer the address is known.
    for (size_t p = 0; p < node.kernel->params()->size(); ++p) {
      if (node.kernel->TypeOf(p).kind != engine::ParamType::Kind::kPointer) {
        continue;
      }
      REPRISE_RETURN_IF_ERROR(check(p, 0));
    }
  }
  return {};
}

Status BatchChecks::CheckWaits(const engine::BatchRecord& record) {
  for (const engine::BatchRecord::EventUse& wait : record.waits()) {
    if (wait.event->recorded()) continue;
    return base::Fail(Code::kFailedPrecondition,
                      "launch " + std::to_string(wait.node) +
                          " (wait) waits for a point of a batch that was not "
                          "submitted yet: submit that batch before");
  }
  return {};
}

}  // namespace reprise::scheduler
