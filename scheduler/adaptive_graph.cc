#include "scheduler/adaptive_graph.h"

#include <cstring>
#include <utility>

#include "scheduler/batch_span.h"

namespace reprise::scheduler {

using base::Error;
using base::Patching;
using base::Result;
using base::Status;

namespace {

// What a takeover must leave as it is.
bool SameShape(const engine::Node& a, const engine::Node& b) {
  return a.kind == b.kind && a.cluster == b.cluster &&
         a.cooperative == b.cooperative && a.programmatic == b.programmatic &&
         a.priority == b.priority;
}

}  // namespace

AdaptiveGraph::Recipe::Recipe(const std::vector<engine::Node>& nodes,
                              device::Dependencies dependencies,
                              std::string name)
    : nodes(nodes),
      dependencies(std::move(dependencies)),
      name(std::move(name)) {
  for (const engine::Node& node : nodes) {
    if (node.kernel != nullptr) {
      kernels.push_back(node.kernel->shared_from_this());
    }
    plain &= node.kind == engine::Node::Kind::kKernel ||
             node.kind == engine::Node::Kind::kCopy ||
             node.kind == engine::Node::Kind::kFill;
  }
}

Result<std::unique_ptr<AdaptiveGraph>> AdaptiveGraph::Build(
    const Workshop& workshop, std::shared_ptr<const Recipe> recipe,
    std::vector<std::byte> image, const engine::MemoryHold& hold,
    const engine::Captures& captures) {
  const Patching wanted = workshop.patching->wanted();
  const Patching first = wanted == Patching::kExecUpdate && recipe->plain
                             ? Patching::kExecUpdate
                             : Patching::kSetParams;
  REPRISE_ASSIGN_OR_RETURN(
      auto graph,
      workshop.device->Build(recipe->nodes, image, recipe->dependencies,
                             captures, engine::Mechanism{.patching = first}));
  return std::unique_ptr<AdaptiveGraph>(
      new AdaptiveGraph(workshop, std::move(recipe), std::move(image), hold,
                        first, std::move(graph)));
}

AdaptiveGraph::AdaptiveGraph(const Workshop& workshop,
                             std::shared_ptr<const Recipe> recipe,
                             std::vector<std::byte> image,
                             const engine::MemoryHold& hold, Patching patching,
                             std::unique_ptr<engine::Graph> graph)
    : workshop_(workshop),
      recipe_(std::move(recipe)),
      shape_(workshop_.patching->ShapeOf(recipe_->nodes)),
      image_(std::move(image)),
      is_pending_(recipe_->nodes.size(), false),
      graph_(std::move(graph)),
      patching_(patching) {
  const Patching wanted = workshop_.patching->wanted();
  adapts_ = wanted == Patching::kMeasured && recipe_->plain;
  if (!recipe_->plain) {
    why_ = "events and captured work are patched so";
  } else if (!adapts_) {
    why_ = "as it was asked";
  }
  if (wanted == Patching::kTable && recipe_->plain) {
    if (shape_.in_table == 0) {
      why_not_ = "a table: no launch has a kernel from source";
    } else {
      StartSuccessor(Patching::kTable, hold);
    }
  }
}

void AdaptiveGraph::SetAll(const std::vector<std::byte>& image) {
  if (image.empty() ||
      std::memcmp(image.data(), image_.data(), image.size()) == 0) {
    return;
  }
  for (size_t i = 0; i < recipe_->nodes.size(); ++i) {
    const engine::Node& node = recipe_->nodes[i];
    Set(i, 0, image.data() + node.image_begin, node.image_bytes);
  }
}

void AdaptiveGraph::Set(size_t index, size_t offset_bytes, const void* value,
                        size_t size_bytes) {
  std::byte* kept =
      image_.data() + recipe_->nodes[index].image_begin + offset_bytes;
  if (std::memcmp(kept, value, size_bytes) == 0) return;
  std::memcpy(kept, value, size_bytes);
  if (is_pending_[index]) return;
  is_pending_[index] = true;
  pending_.push_back(static_cast<uint32_t>(index));
}

Status AdaptiveGraph::GivePending() {
  while (!pending_.empty()) {
    const uint32_t index = pending_.back();
    REPRISE_RETURN_IF_ERROR(
        graph_->Set(index, image_.data() + recipe_->nodes[index].image_begin));
    is_pending_[index] = false;
    pending_.pop_back();
    ++changed_;
  }
  return {};
}

void AdaptiveGraph::ForgetPending() {
  for (const uint32_t index : pending_) is_pending_[index] = false;
  pending_.clear();
}

Status AdaptiveGraph::Give() {
  if (successor_ != nullptr) TakeSuccessor();
  Status given = GivePending();
  if (given) given = graph_->Apply();
  if (patching_ == Patching::kExecUpdate && !graph_->why_set_params().empty()) {
    NoteSetParams();
  }
  if (!given) why_not_ = "new arguments: " + given.error().message();
  return given;
}

Status AdaptiveGraph::Launch() {
  if (adapts_ && policy_.AsksForStream()) {
    policy_.SawStream(workshop_.device->Busy(workshop_.stream));
  }
  REPRISE_RETURN_IF_ERROR(graph_->Launch(workshop_.stream));
  ++replays_;
  policy_.Saw(changed_);
  patched_ += changed_;
  changed_ = 0;
  if (adapts_ && policy_.use().changed != 0 && successor_ == nullptr) Adapt();
  return {};
}

void AdaptiveGraph::NoteSetParams() {
  patching_ = Patching::kSetParams;
  shape_.updates = false;
  why_ = "an update of the graph was refused";
  why_not_ = std::string(ToString(Patching::kExecUpdate)) + ": " +
             std::string(graph_->why_set_params());
}

void AdaptiveGraph::Adapt() {
  const PatchMeasurement* measured = workshop_.patching->Measured();
  if (measured == nullptr) return;  // it is being measured
  if (why_not_.empty()) why_not_ = measured->failure;
  if (!measured->costs.has_value()) {
    adapts_ = false;
    return;
  }
  costs_ = &*measured->costs;
  const auto better = policy_.Better(patching_, *costs_, shape_);
  if (better.has_value()) {
    StartSuccessor(*better, workshop_.device->HoldMemory());
  }
}

void AdaptiveGraph::StartSuccessor(Patching patching, engine::MemoryHold hold) {
  successor_ = std::make_shared<Successor>();
  successor_->patching = patching;
  successor_->image = image_;
  workshop_.queue->Post([successor = successor_, recipe = recipe_,
                         workshop = workshop_, hold = std::move(hold)] {
    const BatchSpan span(workshop.track, Doing::kBuilding, recipe->nodes,
                         recipe->name);
    const auto build = [&]() -> Result<std::unique_ptr<engine::Graph>> {
      engine::Mechanism mechanism{.patching = successor->patching};
      if (successor->patching == Patching::kTable) {
        REPRISE_ASSIGN_OR_RETURN(mechanism,
                                 workshop.patching->TableFor(recipe->nodes));
        for (const auto& twin : mechanism.twins) {
          if (twin != nullptr) ++successor->in_table;
        }
      }
      return workshop.device->Build(recipe->nodes, successor->image,
                                    recipe->dependencies, {},
                                    std::move(mechanism));
    };
    successor->outcome = build();
    successor->built.store(true, std::memory_order_release);
  });
}

void AdaptiveGraph::TakeSuccessor() {
  if (!successor_->built.load(std::memory_order_acquire)) return;
  const std::shared_ptr<Successor> successor = std::move(successor_);
  Result<std::unique_ptr<engine::Graph>>& outcome = *successor->outcome;
  const auto fail = [&](const Error& error) {
    why_not_ =
        std::string(ToString(successor->patching)) + ": " + error.message();
    if (successor->patching == Patching::kTable) shape_.in_table = 0;
    if (successor->patching == Patching::kExecUpdate) shape_.updates = false;
  };
  if (!outcome) return fail(outcome.error());
  std::unique_ptr<engine::Graph> graph = *std::move(outcome);
  for (size_t i = 0; i < recipe_->nodes.size(); ++i) {
    const engine::Node& node = recipe_->nodes[i];
    const std::byte* now = image_.data() + node.image_begin;
    if (std::memcmp(now, successor->image.data() + node.image_begin,
                    node.image_bytes) == 0) {
      continue;
    }
    if (Status set = graph->Set(i, now); !set) return fail(set.error());
  }
  graph_.swap(graph);
  changed_ += pending_.size();
  ForgetPending();
  patching_ = successor->patching;
  if (adapts_) why_.clear();
  in_table_ = successor->in_table;
  // Its end may wait for the device.
  base::ReleaseOn(*workshop_.queue, std::move(graph));
}

bool AdaptiveGraph::MayBecome(const Recipe& recipe) const {
  if (patching_ == Patching::kTable || successor_ != nullptr || !recipe.plain ||
      !recipe_->plain || recipe.nodes.size() != recipe_->nodes.size() ||
      recipe.dependencies != recipe_->dependencies) {
    return false;
  }
  for (size_t i = 0; i < recipe.nodes.size(); ++i) {
    if (!SameShape(recipe.nodes[i], recipe_->nodes[i])) return false;
  }
  return true;
}

Status AdaptiveGraph::TakeOver(std::shared_ptr<const Recipe> recipe,
                               const std::vector<std::byte>& image) {
  if (Status taken = graph_->TakeOver(recipe->nodes, image); !taken) {
    why_not_ = "a takeover: " + taken.error().message();
    return taken;
  }
  recipe_ = std::move(recipe);
  shape_ = workshop_.patching->ShapeOf(recipe_->nodes);
  image_ = image;
  ForgetPending();
  policy_ = PatchPolicy();
  changed_ = 0;
  ++taken_over_;
  return {};
}

std::string AdaptiveGraph::Why() const {
  if (!why_.empty()) return why_;
  if (costs_ == nullptr) return "the first graph";
  return PatchPolicy::Explain(patching_, *costs_, shape_, policy_.use());
}

engine::PlanReport AdaptiveGraph::report() const {
  return {.launches = recipe_->nodes.size(),
          .patching = patching_,
          .why = Why(),
          .in_table = in_table_,
          .replays = replays_,
          .changed = policy_.use().changed,
          .busy = policy_.use().busy,
          .taken_over = taken_over_,
          .why_not = why_not_};
}

}  // namespace reprise::scheduler
