// Runs the lines of a random program on whatever tensors.

#ifndef REPRISE_TESTS_SIM_INTERPRETER_H_
#define REPRISE_TESTS_SIM_INTERPRETER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "tests/sim/model_ops.h"
#include "tests/sim/random_program.h"

namespace reprise::sim {

// What an op that raises throws.
struct OpRaised : std::runtime_error {
  OpRaised() : std::runtime_error("told to raise") {}
};

// The op writes over a tensor and reads another one that shares a part of its
// memory: what comes out would depend on the kernel, so the framework raises.
template <typename Tensor>
bool OverlapsItself(OpKind kind, const std::vector<Tensor>& inputs) {
  if (kind != OpKind::kAccumulate && kind != OpKind::kInto) return false;
  const Tensor& out = inputs[0];
  return std::any_of(
      inputs.begin() + 1, inputs.end(), [&out](const Tensor& in) {
        const bool same =
            in.offset() == out.offset() && in.length() == out.length();
        return in.SameStorage(out) && !same &&
               in.offset() < out.offset() + out.length() &&
               out.offset() < in.offset() + in.length();
      });
}

// `Ops` has a type Tensor with length(), uses(), how many tensors share its
// storage, SameStorage(tensor) and Part(offset, length); New(length), a tensor
// that no op made; Run(kind, inputs, attribute), which gives the new results;
// `generator`, which kDraw uses; PlaceOf(tensor) and NewAt(place, length,
// attribute), a tensor of kUpload's words that nobody is told of; RunAside, as
// Run on another stream; Begin(kind, inputs, attribute, shown), an op of
// another thread that has been entered and whose work is done by what Begin
// returns; WriteForeign(tensor, attribute), kMutate by somebody whom no session
// sees. The program, borrowed, decides by nothing else: two interpreters of one
// program do the same ops as long as uses() agree. Single-thread.
template <typename Ops>
class Interpreter {
 public:
  using Tensor = typename Ops::Tensor;

  Interpreter(const Program* program, Ops* ops)
      : program_(*program), ops_(*ops), variables_(program->variables()) {
    for (size_t w = 0; w < program_.weights; ++w) variables_[w] = Make(w, 1);
    for (size_t set = 0; set < program_.input_sets; ++set) {
      std::vector<Tensor>& inputs = input_sets_.emplace_back();
      for (size_t x = 0; x < program_.inputs; ++x) {
        inputs.push_back(Make(program_.weights + x, 7 + set));
      }
    }
    TakeInputs(0);
  }

  void BeginPass(const Pass& pass, size_t index) {
    for (int i = 0; i < pass.drops && !held_.empty(); ++i) held_.pop_front();
    TakeInputs(static_cast<size_t>(pass.inputs));
    if (pass.uploads) {
      for (size_t x = 0; x < program_.inputs; ++x) {
        const size_t v = program_.weights + x;
        variables_[v] = Make(v, 100 + index);
      }
    }
    if (pass.replaces_weight >= 0) {
      const auto w = static_cast<size_t>(pass.replaces_weight);
      variables_[w] = Make(w, 1000 + index);
    }
    if (pass.edits_weight >= 0) {
      Run(OpKind::kMutate, {*variables_[pass.edits_weight]},
          static_cast<uint32_t>(index));
    }
  }

  void Free(Variable variable) { variables_[variable].reset(); }

  // Work that is no op writes the variable.
  void WriteForeign(Variable variable, uint32_t attribute) {
    if (!variables_[variable].has_value()) return;
    ops_.WriteForeign(*variables_[variable], attribute);
  }

  // Another thread's op that writes it is entered. What is returned does its
  // work.
  std::function<void()> BeginWrite(Variable variable, uint32_t attribute,
                                   bool shown) {
    if (!variables_[variable].has_value()) return [] {};
    return ops_.Begin(OpKind::kMutate, {*variables_[variable]}, attribute,
                      shown);
  }

  // Ops on another stream write it.
  void WriteAside(Variable variable, uint32_t attribute) {
    if (!variables_[variable].has_value()) return;
    const Tensor tensor = *variables_[variable];
    const std::vector<Tensor> scaled =
        ops_.RunAside(OpKind::kScale, {tensor}, attribute);
    const std::vector<Tensor> combined =
        ops_.RunAside(OpKind::kCombine, {scaled[0], tensor}, 0);
    ops_.RunAside(OpKind::kAccumulate, {tensor, combined[0]}, 0);
  }
  const std::optional<Tensor>& variable(Variable variable) const {
    return variables_[variable];
  }

  // Somebody else's data, made without an op, becomes the variable; its old
  // memory is theirs if nothing else holds it.
  void Retake(Variable variable, uint32_t attribute) {
    std::optional<Tensor>& old = variables_[variable];
    if (!old.has_value()) return;
    const size_t length = old->length();
    const auto place = ops_.PlaceOf(*old);
    // The same may be in the set that the inputs came from.
    std::vector<Tensor>& set = input_sets_[input_set_];
    const auto at = std::find_if(
        set.begin(), set.end(),
        [&old](const Tensor& input) { return input.SameStorage(*old); });
    const bool in_set = at != set.end();
    const ptrdiff_t index = at - set.begin();
    if (in_set) set.erase(at);
    old.reset();
    Tensor made = ops_.NewAt(place, length, attribute);
    if (in_set) set.insert(set.begin() + index, made);
    variables_[variable] = made;
  }

  // An input or a weight, if the other one is as long at least.
  void Alias(Variable variable, Variable other) {
    std::optional<Tensor>& one = variables_[variable];
    const std::optional<Tensor>& whole = variables_[other];
    if (!one.has_value() || !whole.has_value() ||
        whole->length() < one->length()) {
      return;
    }
    aliased_.emplace_back(variable, *one);
    Tensor view = whole->Part(whole->length() - one->length(), one->length());
    ops_.Alias(*one, view);
    one = std::move(view);
  }

  void EndPass(const Pass& pass) {
    for (; !aliased_.empty(); aliased_.pop_back()) {
      variables_[aliased_.back().first] = aliased_.back().second;
    }
    MakeWeights();
    const size_t first = program_.weights + program_.inputs;
    for (size_t v = 0; v < program_.locals; ++v) {
      std::optional<Tensor>& local = variables_[first + v];
      if ((pass.holds >> v & 1) != 0 && local.has_value()) {
        held_.push_back(*local);
      }
      if (!program_.keeps_locals) local.reset();
    }
  }

  void Execute(const Line& line, uint32_t attribute) {
    std::vector<Tensor> inputs;
    for (const Variable v : line.inputs) {
      if (!variables_[v].has_value()) return;
      inputs.push_back(*variables_[v]);
    }
    switch (line.what) {
      case Line::What::kDrop:
        inputs.clear();
        variables_[line.inputs[0]].reset();
        return;
      case Line::What::kSteal: {
        inputs.clear();
        Tensor& owner = *variables_[line.inputs[0]];
        if (owner.uses() == 1) {
          Run(OpKind::kMutate, {owner}, attribute);
        } else {
          Set(line.outputs, Run(OpKind::kScale, {owner}, attribute));
        }
        return;
      }
      case Line::What::kFresh: {
        std::vector<Tensor> fresh = Run(OpKind::kEmpty, {inputs[0]}, 0);
        Run(OpKind::kInto, {fresh[0], inputs[0], inputs[1]}, 0);
        Set(line.outputs, std::move(fresh));
        return;
      }
      case Line::What::kOp: {
        std::vector<Tensor> results =
            Run(line.kind, std::move(inputs), attribute);
        if (line.kind == OpKind::kEmpty) return;  // nobody may look at it
        Set(line.outputs, std::move(results));
        return;
      }
    }
  }

  // The host looks at something: a cut.
  void Look() { Run(OpKind::kRead, {*variables_[0]}, 0); }
  void Raise() {
    MakeWeights();
    Run(OpKind::kRaise, {*variables_[0]}, 1);
  }

  // All that the program can see: variables in order (empty ones too), inputs,
  // what it holds.
  std::vector<const Tensor*> Live() const {
    std::vector<const Tensor*> live;
    for (const std::optional<Tensor>& variable : variables_) {
      live.push_back(variable.has_value() ? &*variable : nullptr);
    }
    for (const std::vector<Tensor>& set : input_sets_) {
      for (const Tensor& input : set) live.push_back(&input);
    }
    for (const Tensor& tensor : held_) live.push_back(&tensor);
    return live;
  }

  // The ops so far, by kind and attribute.
  uint64_t ops() const { return ops_done_; }

 private:
  Tensor Make(size_t variable, size_t seed) {
    Tensor made = ops_.New(program_.lengths[variable]);
    Run(OpKind::kUpload, {made}, static_cast<uint32_t>(1000 * seed + variable));
    return made;
  }

  // In place of those that were freed.
  void MakeWeights() {
    for (size_t w = 0; w < program_.weights; ++w) {
      if (!variables_[w].has_value()) variables_[w] = Make(w, 2000 + remade_++);
    }
  }

  void TakeInputs(size_t set) {
    input_set_ = set;
    for (size_t x = 0; x < program_.inputs; ++x) {
      variables_[program_.weights + x] = input_sets_[set][x];
    }
  }

  void Set(const std::vector<Variable>& outputs, std::vector<Tensor> results) {
    for (size_t r = 0; r < outputs.size() && r < results.size(); ++r) {
      variables_[outputs[r]] = std::move(results[r]);
    }
  }

  std::vector<Tensor> Run(OpKind kind, std::vector<Tensor> inputs,
                          uint32_t attribute) {
    ops_done_ = ops_done_ * 31 + static_cast<uint64_t>(kind) * 1009 + attribute;
    return ops_.Run(kind, inputs, attribute);
  }

  const Program& program_;
  Ops& ops_;
  std::vector<std::optional<Tensor>> variables_;
  std::vector<std::vector<Tensor>> input_sets_;
  size_t input_set_ = 0;
  std::vector<std::pair<Variable, Tensor>> aliased_;
  std::deque<Tensor> held_;
  size_t remade_ = 0;
  uint64_t ops_done_ = 0;
};

// The reference: each op done at once on vectors of its own, with no device, no
// session and no memory that is used again.
class PlainOps {
 public:
  class Tensor {
   public:
    Tensor(std::shared_ptr<std::vector<uint32_t>> storage, size_t offset,
           size_t length)
        : storage_(std::move(storage)), offset_(offset), length_(length) {}

    size_t length() const { return length_; }
    size_t offset() const { return offset_; }
    long uses() const { return storage_.use_count(); }
    uint32_t& operator[](size_t i) const { return (*storage_)[offset_ + i]; }
    Tensor Part(size_t offset, size_t length) const {
      return Tensor(storage_, offset_ + offset, length);
    }
    // Names the storage while it is alive.
    const void* storage() const { return storage_.get(); }
    bool SameStorage(const Tensor& other) const {
      return storage_ == other.storage_;
    }
    std::vector<uint32_t> values() const {
      const auto begin = storage_->begin() + static_cast<ptrdiff_t>(offset_);
      return {begin, begin + static_cast<ptrdiff_t>(length_)};
    }

   private:
    std::shared_ptr<std::vector<uint32_t>> storage_;
    size_t offset_;
    size_t length_;
  };

  Tensor New(size_t length) const {
    return Tensor(std::make_shared<std::vector<uint32_t>>(length), 0, length);
  }
  std::vector<Tensor> Run(OpKind kind, const std::vector<Tensor>& inputs,
                          uint32_t attribute);
  std::vector<Tensor> RunAside(OpKind kind, const std::vector<Tensor>& inputs,
                               uint32_t attribute) {
    return Run(kind, inputs, attribute);
  }
  std::function<void()> Begin(OpKind kind, const std::vector<Tensor>& inputs,
                              uint32_t attribute, bool /*shown*/) {
    return [=, this] { Run(kind, inputs, attribute); };
  }
  void Alias(const Tensor&, const Tensor&) const {}
  // Nothing lies anywhere.
  struct Place {};
  Place PlaceOf(const Tensor&) const { return {}; }
  Tensor NewAt(Place, size_t length, uint32_t attribute) {
    Tensor made = New(length);
    Run(OpKind::kUpload, {made}, attribute);
    return made;
  }
  void WriteForeign(const Tensor& tensor, uint32_t attribute) {
    Run(OpKind::kMutate, {tensor}, attribute);
  }

  ModelGenerator generator;

 private:
  uint32_t brought_ = 0;
};

}  // namespace reprise::sim

#endif  // REPRISE_TESTS_SIM_INTERPRETER_H_
