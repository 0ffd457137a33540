#include "tests/bindings/native/batch_program.h"

#include <algorithm>
#include <random>
#include <utility>

namespace reprise::native {
namespace {

using Kind = Step::Kind;
using What = Action::What;

constexpr const char* kKinds[] = {
    "mix",   "blend", "weave", "stamp",   "plain",   "any",  "copy",
    "fill1", "fill2", "fill4", "capture", "unknown", "wait", "record"};
constexpr const char* kParts[] = {"", ".first", ".second"};
constexpr const char* kWhats[] = {
    "submit", "drop",    "mistake", "prepare",   "set",
    "launch", "end",     "build",   "build all", "replace",
    "look",   "advance", "order",   "stats",     "new stream"};

class Generator {
 public:
  Generator(uint32_t seed, const ProgramOptions& options)
      : random_(seed), options_(options) {}

  Program Make() {
    Program program;
    while (program.shapes.size() < options_.shapes) {
      if (!program.shapes.empty() && !options_.calm && OneIn(2)) {
        program.shapes.push_back(Relative(program.shapes[Below(
            static_cast<uint32_t>(program.shapes.size()))]));
      } else {
        program.shapes.push_back(MakeShape());
      }
    }
    // Most programs stay with a few shapes for a while.
    size_t favourite = 0;
    while (program.actions.size() < options_.actions) {
      if (OneIn(12)) favourite = Below(static_cast<uint32_t>(options_.shapes));
      program.actions.push_back(MakeAction(program, favourite));
    }
    return program;
  }

  Program MakeCalm() {
    Program program;
    while (program.shapes.size() < options_.shapes) {
      program.shapes.push_back(MakeShape());
    }
    for (size_t i = 0; i < options_.actions; ++i) {
      for (size_t shape = 0; shape < program.shapes.size(); ++shape) {
        Action& submit = program.actions.emplace_back();
        submit.shape = shape;
        submit.change.mask = Bits() & Arguments(program.shapes[shape]);
        submit.change.by = Below(3);
        program.actions.emplace_back().what = What::kBuildAll;
      }
    }
    return program;
  }

 private:
  uint32_t Bits() { return static_cast<uint32_t>(random_()); }
  uint32_t Below(uint32_t end) { return Bits() % end; }
  bool OneIn(uint32_t times) { return Below(times) == 0; }

  // The steps whose number is an argument: that of others makes another batch.
  static uint32_t Arguments(const Shape& shape) {
    uint32_t mask = 0;
    for (size_t i = 0; i < shape.steps.size(); ++i) {
      if (shape.steps[i].kind < Kind::kCopy) mask |= 1u << i;
    }
    return mask;
  }

  Range Own(size_t stream) {
    return {static_cast<uint32_t>(stream) * kOwnBuffers + Below(kOwnBuffers),
            static_cast<Range::Part>(OneIn(3) ? 1 + Below(2) : 0)};
  }
  Range Shared() {
    return {kStreams * kOwnBuffers + Below(kSharedBuffers),
            static_cast<Range::Part>(OneIn(3) ? 1 + Below(2) : 0)};
  }

  Step MakeStep(const Shape& shape, bool may_share) {
    Step step;
    const uint32_t choice = Below(16);
    step.kind = choice < 4   ? Kind::kMix
                : choice < 5 ? Kind::kBlend
                : choice < 7 ? Kind::kWeave
                             : static_cast<Kind>(choice - 4);
    if (step.kind == Kind::kUnknown && (options_.calm || !OneIn(4))) {
      step.kind = Kind::kStamp;
    }
    if (step.kind >= Kind::kWait) step.kind = Kind::kMix;
    const auto range = [&] {
      return may_share && OneIn(2) ? Shared() : Own(shape.stream);
    };
    step.to = range();
    step.from = range();
    // What a copy overlaps with is not told; two InOut of one are one too many.
    while (step.from.buffer == step.to.buffer &&
           (step.kind == Kind::kCopy || step.kind == Kind::kWeave)) {
      step.from = Own(shape.stream);
    }
    if (step.kind == Kind::kCopy) step.from.part = step.to.part;
    if (step.kind == Kind::kCopy && OneIn(3)) {
      step.from.part = step.to.part = static_cast<Range::Part>(1 + Below(2));
    }
    step.by = Below(1000);
    step.blocks = 1 + Below(6);
    if (OneIn(4)) step.attribute = static_cast<Step::Attribute>(Below(7));
    return step;
  }

  Shape MakeShape() {
    Shape shape;
    shape.stream = Below(kStreams);
    shape.shares = OneIn(3);
    const size_t launches = !options_.calm && OneIn(8) ? 1 : 2 + Below(6);
    size_t wait_at = shape.shares ? Below(static_cast<uint32_t>(launches)) : 0;
    for (size_t i = 0; i < launches; ++i) {
      if (shape.shares && i == wait_at) {
        shape.steps.emplace_back().kind = Kind::kWait;
      }
      shape.steps.push_back(MakeStep(shape, shape.shares && i >= wait_at));
    }
    if (shape.shares) shape.steps.emplace_back().kind = Kind::kRecord;
    return shape;
  }

  // Of the same kinds and edges, with other kernels and grids.
  Shape Relative(const Shape& of) {
    Shape shape = of;
    for (Step& step : shape.steps) {
      if (step.kind == Kind::kMix && OneIn(2)) step.kind = Kind::kBlend;
      step.blocks = 1 + Below(6);
      step.by = Below(1000);
    }
    return shape;
  }

  Change MakeChange() {
    Change change;
    if (OneIn(3)) return change;
    change.mask = OneIn(3) ? ~0u : Bits();
    change.by = Below(100);
    if (OneIn(3)) change.shift = Below(kOwnBuffers);
    if (OneIn(6)) change.moved = Bits();
    if (OneIn(5)) change.blocks = Below(3);
    return change;
  }

  Action MakeAction(const Program& program, size_t favourite) {
    Action action;
    action.shape = OneIn(3)
                       ? Below(static_cast<uint32_t>(program.shapes.size()))
                       : favourite;
    action.slot = Below(Action::kSlots);
    action.buffer = Below(kBuffers);
    action.stream = Below(kStreams);
    const uint32_t choice = Below(100);
    if (choice < 52) {
      action.what = What::kSubmit;
      action.change = MakeChange();
    } else if (choice < 54) {
      action.what = What::kDrop;
    } else if (choice < 55) {
      action.what = What::kMistake;
    } else if (choice < 58) {
      action.what = What::kPrepare;
      action.change = MakeChange();
    } else if (choice < 64) {
      action.what = What::kSet;
      action.change = MakeChange();
      action.change.moved = ~0u;  // as Plan::Set asks for
      action.change.blocks = 0;
    } else if (choice < 71) {
      action.what = What::kLaunch;
    } else if (choice < 72) {
      action.what = What::kEndPlan;
    } else if (choice < 81) {
      action.what = What::kBuild;
      action.count = 1 + Below(2);
    } else if (choice < 86) {
      action.what = What::kBuildAll;
    } else if (choice < 90) {
      action.what = What::kReplace;
    } else if (choice < 93) {
      action.what = What::kLook;
    } else if (choice < 96) {
      action.what = What::kAdvance;
      action.count = Below(20);
    } else if (choice < 98) {
      action.what = What::kOrder;
    } else if (choice < 99) {
      action.what = What::kStats;
    } else {
      action.what = What::kNewStream;
    }
    return action;
  }

  std::mt19937 random_;
  const ProgramOptions options_;
};

std::string NameOf(const Range& range) {
  return "b" + std::to_string(range.buffer) +
         kParts[static_cast<size_t>(range.part)];
}

template <typename T>
bool WithoutOneOf(std::vector<T>& of, const std::function<bool(const T&)>& may,
                  const std::function<bool()>& fails) {
  bool smaller = false;
  for (size_t length = std::max<size_t>(of.size() / 2, 1); length > 0;
       length /= 2) {
    for (size_t at = 0; at + length <= of.size();) {
      const auto first = of.begin() + static_cast<std::ptrdiff_t>(at);
      const auto past = first + static_cast<std::ptrdiff_t>(length);
      if (!std::all_of(first, past, may)) {
        ++at;
        continue;
      }
      std::vector<T> kept = of;
      of.erase(first, past);
      if (fails()) {
        smaller = true;
      } else {
        of = std::move(kept);
        at += length;
      }
    }
  }
  return smaller;
}

}  // namespace

Program RandomProgram(uint32_t seed, const ProgramOptions& options) {
  Generator generator(seed, options);
  return options.calm ? generator.MakeCalm() : generator.Make();
}

Program Shrink(Program program,
               const std::function<bool(const Program&)>& fails) {
  const auto still = [&] { return fails(program); };
  bool smaller = true;
  while (smaller) {
    smaller = WithoutOneOf<Action>(
        program.actions, [](const Action&) { return true; }, still);
    for (Shape& shape : program.shapes) {
      // Without its wait or its record a shape would be a wrong program.
      smaller |= WithoutOneOf<Step>(
          shape.steps,
          [](const Step& step) {
            return step.kind != Kind::kWait && step.kind != Kind::kRecord;
          },
          still);
    }
  }
  return program;
}

std::string Program::ToString() const {
  std::string text;
  std::vector<bool> used(shapes.size(), false);
  for (const Action& action : actions) used[action.shape] = true;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!used[i]) continue;
    text += "shape " + std::to_string(i) + " on stream " +
            std::to_string(shapes[i].stream) + ":\n";
    for (const Step& step : shapes[i].steps) {
      text += std::string("  ") + kKinds[static_cast<size_t>(step.kind)];
      if (step.kind < Kind::kWait) {
        text += " " + NameOf(step.to) + " " + NameOf(step.from) + " by " +
                std::to_string(step.by) + ", " + std::to_string(step.blocks) +
                " blocks, attribute " + std::to_string(step.attribute);
      }
      text += "\n";
    }
  }
  for (const Action& action : actions) {
    text += kWhats[static_cast<size_t>(action.what)];
    const auto number = [&text](const char* name, auto value) {
      text += std::string(" ") + name + " " + std::to_string(value);
    };
    const auto change = [&] {
      if (action.change.mask != 0 && action.change.by != 0) {
        number("mask", action.change.mask);
        number("by", action.change.by);
      }
      if (action.change.shift != 0) {
        number("shift", action.change.shift);
        number("moved", action.change.moved);
      }
      if (action.change.blocks != 0) number("blocks", action.change.blocks);
    };
    switch (action.what) {
      case What::kSubmit:
      case What::kDrop:
      case What::kMistake:
        number("shape", action.shape);
        change();
        break;
      case What::kPrepare:
        number("shape", action.shape);
        number("slot", action.slot);
        change();
        break;
      case What::kSet:
        number("slot", action.slot);
        change();
        break;
      case What::kLaunch:
      case What::kEndPlan:
        number("slot", action.slot);
        break;
      case What::kBuild:
        number("count", action.count);
        break;
      case What::kReplace:
      case What::kLook:
        number("buffer", action.buffer);
        break;
      case What::kAdvance:
        number("count", action.count);
        number("stream", action.stream);
        break;
      case What::kOrder:
      case What::kStats:
      case What::kNewStream:
        number("stream", action.stream);
        break;
      case What::kBuildAll:
        break;
    }
    text += "\n";
  }
  return text;
}

}  // namespace reprise::native
