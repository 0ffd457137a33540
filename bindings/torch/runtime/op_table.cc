#include "bindings/torch/runtime/op_table.h"

#include <deque>
#include <mutex>
#include <utility>

namespace reprise::bindings {
namespace {

struct OpTable {
  std::mutex mutex;
  std::deque<OpInfo> ops;  // guarded by mutex while it grows
};

OpTable& Table() {
  static OpTable* const table = new OpTable;  // hooks outlive everything
  return *table;
}

}  // namespace

const OpInfo* AddToOpTable(OpInfo info) {
  OpTable& table = Table();
  const std::lock_guard lock(table.mutex);
  info.id = static_cast<engine::OpId>(table.ops.size());
  return &table.ops.emplace_back(std::move(info));
}

std::string OpName(engine::OpId op) {
  OpTable& table = Table();
  const std::lock_guard lock(table.mutex);
  return op < table.ops.size() ? table.ops[op].name : std::string();
}

std::vector<const OpInfo*> HookedOps() {
  OpTable& table = Table();
  const std::lock_guard lock(table.mutex);
  std::vector<const OpInfo*> ops;
  ops.reserve(table.ops.size());
  for (const OpInfo& info : table.ops) ops.push_back(&info);
  return ops;
}

}  // namespace reprise::bindings
