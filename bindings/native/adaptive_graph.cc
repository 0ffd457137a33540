#include "bindings/native/adaptive_graph.h"

#include <cstring>
#include <utility>

namespace reprise::native {
namespace {

// What a takeover must leave as it is.
bool SameShape(const Node& a, const Node& b) {
  return a.kind == b.kind && a.cluster == b.cluster &&
         a.cooperative == b.cooperative && a.programmatic == b.programmatic &&
         a.priority == b.priority;
}

}  // namespace

AdaptiveGraph::Recipe::Recipe(const std::vector<Node>& nodes,
                              device::Dependencies dependencies)
    : nodes(nodes), dependencies(std::move(dependencies)) {
  for (const Node& node : nodes) {
    if (node.kernel != nullptr) {
      kernels.push_back(node.kernel->shared_from_this());
    }
    plain &= node.kind == Node::Kind::kKernel ||
             node.kind == Node::Kind::kCopy || node.kind == Node::Kind::kFill;
  }
}

Result<std::unique_ptr<AdaptiveGraph>> AdaptiveGraph::Build(
    const Workshop& workshop, std::shared_ptr<const Recipe> recipe,
    std::vector<std::byte> image, const Captures& captures) {
  const Patching wanted = workshop.patching->wanted();
  const Patching first = wanted == Patching::kExecUpdate && recipe->plain
                             ? Patching::kExecUpdate
                             : Patching::kSetParams;
  REPRISE_ASSIGN_OR_RETURN(
      auto graph, workshop.device->Build(
                      recipe->nodes, image, recipe->dependencies,
                      workshop.stream, captures, Mechanism{.patching = first}));
  return std::unique_ptr<AdaptiveGraph>(new AdaptiveGraph(
      workshop, std::move(recipe), std::move(image), first, std::move(graph)));
}

AdaptiveGraph::AdaptiveGraph(const Workshop& workshop,
                             std::shared_ptr<const Recipe> recipe,
                             std::vector<std::byte> image, Patching patching,
                             std::unique_ptr<Graph> graph)
    : workshop_(workshop),
      recipe_(std::move(recipe)),
      shape_(workshop_.patching->ShapeOf(recipe_->nodes)),
      image_(std::move(image)),
      graph_(std::move(graph)),
      patching_(patching) {
  const Patching wanted = workshop_.patching->wanted();
  adapts_ = wanted == Patching::kMeasured && recipe_->plain;
  why_ = !recipe_->plain ? "events and captured work are patched so"
         : adapts_       ? "the first graph"
                         : "as it was asked";
  if (wanted == Patching::kTable && recipe_->plain) {
    if (shape_.in_table == 0) {
      why_not_ = "a table: no launch has a kernel from source";
    } else {
      StartSuccessor(Patching::kTable);
    }
  }
}

Status AdaptiveGraph::SetAll(const std::vector<std::byte>& image) {
  if (image.empty() ||
      std::memcmp(image.data(), image_.data(), image.size()) == 0) {
    return {};
  }
  for (size_t i = 0; i < recipe_->nodes.size(); ++i) {
    REPRISE_RETURN_IF_ERROR(
        Set(i, image.data() + recipe_->nodes[i].image_begin));
  }
  return {};
}

Status AdaptiveGraph::Set(size_t index, const std::byte* arguments) {
  const Node& node = recipe_->nodes[index];
  std::byte* kept = image_.data() + node.image_begin;
  if (std::memcmp(kept, arguments, node.image_bytes) == 0) return {};
  REPRISE_RETURN_IF_ERROR(graph_->Set(index, arguments));
  std::memcpy(kept, arguments, node.image_bytes);
  ++changed_;
  return {};
}

Status AdaptiveGraph::Launch() {
  if (successor_ != nullptr) TakeSuccessor();
  REPRISE_RETURN_IF_ERROR(graph_->Launch(workshop_.stream));
  ++replays_;
  policy_.Saw(changed_);
  patched_ += changed_;
  changed_ = 0;
  if (adapts_ && policy_.changed() != 0 && successor_ == nullptr) Adapt();
  return {};
}

void AdaptiveGraph::Adapt() {
  const PatchCosts* costs = workshop_.patching->Costs();
  if (costs == nullptr) return;  // they are being measured
  const auto better = policy_.Better(patching_, *costs, shape_);
  if (!better.has_value()) return;
  why_ = PatchPolicy::Explain(*better, *costs, shape_, policy_.changed());
  StartSuccessor(*better);
}

void AdaptiveGraph::StartSuccessor(Patching patching) {
  successor_ = std::make_shared<Successor>();
  successor_->patching = patching;
  successor_->image = image_;
  workshop_.queue->Post(
      [successor = successor_, recipe = recipe_, workshop = workshop_] {
        const auto build = [&]() -> Result<std::unique_ptr<Graph>> {
          Mechanism mechanism{.patching = successor->patching};
          if (successor->patching == Patching::kTable) {
            REPRISE_ASSIGN_OR_RETURN(
                mechanism, workshop.patching->TableFor(recipe->nodes));
            for (const auto& twin : mechanism.twins) {
              if (twin != nullptr) ++successor->in_table;
            }
          }
          return workshop.device->Build(recipe->nodes, successor->image,
                                        recipe->dependencies, workshop.stream,
                                        {}, std::move(mechanism));
        };
        successor->outcome = build();
        successor->built.store(true, std::memory_order_release);
      });
}

void AdaptiveGraph::TakeSuccessor() {
  if (!successor_->built.load(std::memory_order_acquire)) return;
  const std::shared_ptr<Successor> successor = std::move(successor_);
  Result<std::unique_ptr<Graph>>& outcome = *successor->outcome;
  const auto fail = [&](const Error& error) {
    why_not_ =
        std::string(ToString(successor->patching)) + ": " + error.message();
    if (successor->patching == Patching::kTable) shape_.in_table = 0;
  };
  if (!outcome) return fail(outcome.error());
  std::unique_ptr<Graph> graph = *std::move(outcome);
  for (size_t i = 0; i < recipe_->nodes.size(); ++i) {
    const Node& node = recipe_->nodes[i];
    const std::byte* now = image_.data() + node.image_begin;
    if (std::memcmp(now, successor->image.data() + node.image_begin,
                    node.image_bytes) == 0) {
      continue;
    }
    if (Status set = graph->Set(i, now); !set) return fail(set.error());
  }
  graph_.swap(graph);
  patching_ = successor->patching;
  in_table_ = successor->in_table;
  // Its end may wait for the device.
  workshop_.queue->Post([old = std::shared_ptr<Graph>(std::move(graph)),
                         device = workshop_.device]() mutable {
    const DeviceScope scope(*device);
    old.reset();
  });
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
  policy_ = PatchPolicy();
  changed_ = 0;
  ++taken_over_;
  return {};
}

PlanReport AdaptiveGraph::report() const {
  return {.launches = recipe_->nodes.size(),
          .patching = patching_,
          .why = why_,
          .in_table = in_table_,
          .replays = replays_,
          .changed = policy_.changed(),
          .taken_over = taken_over_,
          .why_not = why_not_};
}

}  // namespace reprise::native
