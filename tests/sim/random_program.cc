#include "tests/sim/random_program.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <utility>

namespace reprise::sim {
namespace {

class Generator {
 public:
  Generator(uint32_t seed, const ProgramStyle& style)
      : random_(seed * 2654435761u + 12345),
        draws_(seed ^ 0x9e3779b9),
        threads_(seed ^ 0x7f4a7c15),
        style_(style) {}

  Program Make() {
    Program& p = program_;
    p.weights = 2 + Below(3);
    p.inputs = 1 + Below(2);
    p.locals = 6;
    p.input_sets = 1 + Below(3);
    for (size_t i = 0; i < p.weights + p.inputs; ++i) {
      p.lengths.push_back(kLengths[Below(kLengths.size())]);
    }
    p.keeps_locals = Below(2) == 0;
    grows_ = !style_.calm && Below(3) == 0;
    if (Below(4) == 0) AddLines(p.preamble, 1 + Below(4));
    set_.assign(p.variables(), false);
    // The head takes an input and a weight, as a model's first layer does.
    AddOp(p.body, OpKind::kCombine, {Input(), Weight()});
    AddLines(p.body, 6 + Below(12));
    AddLines(p.detour, 1 + Below(3));
    for (size_t i = 0; i < style_.passes; ++i) AddPass(i);
    if (style_.eventful) AddEvents();
    AddDraws();
    if (style_.eventful) AddOpsUnderWay();
    return std::move(program_);
  }

 private:
  uint32_t Below(size_t bound) {
    return static_cast<uint32_t>(random_() % bound);
  }
  Variable Weight() { return static_cast<Variable>(Below(program_.weights)); }
  Variable Input() {
    return static_cast<Variable>(program_.weights + Below(program_.inputs));
  }
  Variable AnyLocal() {
    return static_cast<Variable>(program_.weights + program_.inputs +
                                 Below(program_.locals));
  }
  // A local that is set, if there is one.
  Variable Local() {
    for (int tries = 0; tries < 8; ++tries) {
      const Variable local = AnyLocal();
      if (set_.size() > static_cast<size_t>(local) && set_[local]) return local;
    }
    return Input();
  }
  // Of an op in place: mostly what the program made.
  Variable Target() { return Below(6) == 0 ? Weight() : Local(); }
  Variable Operand() {
    const uint32_t dice = Below(10);
    return dice < 6 ? Local() : dice < 9 ? Weight() : Input();
  }

  void AddOp(std::vector<Line>& lines, OpKind kind,
             std::vector<Variable> inputs) {
    Line line;
    line.kind = kind;
    line.inputs = std::move(inputs);
    line.attribute = 2 + Below(1000);
    if (grows_ && HasNumber(kind) && Below(3) == 0) {
      line.grows = Below(4);
    }
    for (size_t r = 0; r < TraitsOf(kind).results; ++r) {
      const Variable local = AnyLocal();
      line.outputs.push_back(local);
      if (set_.size() > static_cast<size_t>(local)) set_[local] = true;
    }
    lines.push_back(std::move(line));
  }

  void AddLines(std::vector<Line>& lines, size_t count) {
    set_.resize(program_.variables());
    for (size_t i = 0; i < count; ++i) AddLine(lines);
  }

  void AddLine(std::vector<Line>& lines) {
    const uint32_t dice = Below(100);
    Line line;
    if (dice < 5) {
      line.what = Line::What::kDrop;
      line.inputs = {Local()};
      if (line.inputs[0] >= FirstLocal()) set_[line.inputs[0]] = false;
      lines.push_back(line);
    } else if (dice < 11) {
      line.what = Line::What::kSteal;
      line.inputs = {Local()};
      line.attribute = 2 + Below(1000);
      if (grows_ && Below(3) == 0) line.grows = Below(4);
      line.outputs = {AnyLocal()};
      if (line.inputs[0] < FirstLocal()) return;
      set_[line.outputs[0]] = true;
      lines.push_back(line);
    } else if (dice < 17) {
      line.what = Line::What::kFresh;
      line.inputs = {Operand(), Operand()};
      line.outputs = {AnyLocal()};
      set_[line.outputs[0]] = true;
      lines.push_back(line);
    } else if (dice < 29) {
      AddOp(lines, OpKind::kScale, {Operand()});
    } else if (dice < 45) {
      AddOp(lines, OpKind::kCombine, {Local(), Operand()});
    } else if (dice < 51) {
      AddOp(lines, OpKind::kFold, {Operand()});
    } else if (dice < 58) {
      AddOp(lines, OpKind::kTwice, {Operand(), Operand()});
    } else if (dice < 61) {
      AddOp(lines, OpKind::kPair, {Operand()});
    } else if (dice < 63) {
      AddOp(lines, OpKind::kEach, {Operand()});
    } else if (dice < 67) {
      AddOp(lines, OpKind::kSplit, {Operand()});
    } else if (dice < 70) {
      AddOp(lines, OpKind::kFill, {});
    } else if (dice < 71) {
      AddOp(lines, OpKind::kBring, {});
    } else if (dice < 75) {
      AddOp(lines, OpKind::kClone, {Operand()});
    } else if (dice < 82) {
      AddInPlace(lines, OpKind::kMutate, {Target()});
    } else if (dice < 89) {
      AddInPlace(lines, OpKind::kAccumulate, {Target(), Operand()});
    } else if (dice < 92) {
      AddInPlace(lines, OpKind::kInto, {Target(), Operand(), Operand()});
    } else if (dice < 96) {
      AddOp(lines, OpKind::kHalf, {Operand()});
    } else if (style_.calm) {
      AddOp(lines, OpKind::kScale, {Operand()});
    } else if (dice < 98) {
      AddOp(lines, OpKind::kDraw, {Operand()});
      if (Below(2) == 0) lines.back().attribute = 0;
    } else if (dice < 99) {
      AddOp(lines, OpKind::kRead, {Operand()});
    } else {
      AddInPlace(lines, OpKind::kUpload, {Target()});
    }
  }

  void AddInPlace(std::vector<Line>& lines, OpKind kind,
                  std::vector<Variable> inputs) {
    if (inputs[0] < FirstLocal() && style_.calm) return;
    AddOp(lines, kind, std::move(inputs));
  }
  Variable FirstLocal() const {
    return static_cast<Variable>(program_.weights + program_.inputs);
  }

  void Disturb(Pass& pass) {
    const auto some_line = [&] {
      return static_cast<int>(Below(program_.body.size()));
    };
    switch (Below(13)) {
      case 0:
      case 1:
      case 2:
        pass.leaves_at = some_line();
        break;
      case 3:
      case 4:
        pass.changes_at = some_line();
        break;
      case 5:
        pass.replaces_weight = Weight();
        break;
      case 6:
        pass.edits_weight = Weight();
        break;
      case 7:
        pass.raises_at = some_line();
        break;
      case 8:
        pass.uploads = true;
        break;
      case 9:
        pass.evicts_at = some_line();
        break;
      case 10:
        pass.gives_back_at = some_line();
        break;
      case 11:
        pass.settles = true;
        break;
      case 12:
        pass.frees = static_cast<Variable>(Below(program_.variables()));
        pass.frees_at = some_line();
        pass.gives_back_at = pass.frees_at;
        break;
    }
  }

  void AddPass(size_t index) {
    Pass pass;
    pass.inputs = static_cast<int>(Below(program_.input_sets));
    if (Below(2) == 0) {
      pass.builds_at = static_cast<int>(Below(program_.body.size()));
    }
    if (Below(3) == 0) pass.holds = Below(1u << program_.locals);
    if (Below(2) == 0) pass.drops = static_cast<int>(Below(8));
    if (!style_.calm && index > 2 && Below(4) == 0) {
      Disturb(pass);
      if (Below(2) == 0) Disturb(pass);
    }
    if (!style_.calm && Below(4) == 0) pass.looks = true;
    if (!style_.calm && index > 2 && clears_() % 16 == 0) {
      const auto lines = static_cast<uint32_t>(program_.body.size());
      pass.clears_at = static_cast<int>(clears_() % lines);
    }
    program_.passes.push_back(pass);
  }

  // A program has events of two kinds, so that some have none that ends all
  // replays for long.
  void AddEvents() {
    const Event::What kinds[] = {AnyEvent(), AnyEvent()};
    const bool begins_elsewhere = Below(4) == 0;
    for (size_t i = 0; i < program_.passes.size(); ++i) {
      Pass& pass = program_.passes[i];
      if (Below(8) != 0) pass.builds_at = 0;
      if (i > 2 && Below(32) == 0) Disturb(pass);
      if (begins_elsewhere && Below(8) == 0) {
        pass.begins_at = static_cast<int>(Below(4));
      }
      if (i < kFirstEventful || Below(4) != 0) continue;
      pass.looks = Below(2) == 0;
      AddEvent(pass, kinds[Below(2)]);
      if (Below(4) == 0) AddEvent(pass, kinds[Below(2)]);
    }
  }

  void AddEvent(Pass& pass, Event::What what) {
    Event event;
    event.what = what;
    event.at = static_cast<int>(Below(program_.body.size()));
    event.variable = static_cast<Variable>(Below(program_.variables()));
    event.twist = Below(2) == 0;
    if (what == Event::What::kRetake || what == Event::What::kAlias) {
      event.variable = Below(2) == 0 ? Input() : Weight();
      event.other = AnyLocal();
    } else if (what == Event::What::kPause) {
      pass.events.push_back(event);
      event.what = Event::What::kResume;
      event.at += static_cast<int>(Below(4));
    } else if (what == Event::What::kAside) {
      event.variable = Weight();
      Event fence = event;
      fence.what = Event::What::kFence;
      fence.at = std::max(0, event.at - static_cast<int>(Below(6)));
      fence.twist = Below(2) == 0;
      pass.events.push_back(fence);
    }
    pass.events.push_back(event);
  }

  // Some programs draw, and some of them set the generator.
  void AddDraws() {
    if (draws_() % 2 == 0) return;
    for (Line& line : program_.body) {
      const bool scales =
          line.what == Line::What::kOp && line.kind == OpKind::kScale;
      if (!scales || draws_() % 3 == 0) continue;
      line.kind = OpKind::kDraw;
      line.grows = 0;
    }
    const bool regularly = draws_() % 2 == 0;
    const bool now_and_then = draws_() % 2 == 0;
    std::vector<Event> each;
    if (regularly) each.push_back(SomeSetting());
    if (regularly && draws_() % 2 == 0) each.push_back(SomeSetting());
    for (size_t i = 0; i < program_.passes.size(); ++i) {
      std::vector<Event>& events = program_.passes[i].events;
      events.insert(events.end(), each.begin(), each.end());
      const bool disturbs = !style_.calm || style_.eventful;
      if (now_and_then && disturbs && draws_() % 8 == 0) {
        events.push_back(SomeSetting());
      }
    }
  }
  Event SomeSetting() {
    Event event;
    event.what = Event::What::kGenerator;
    event.at = static_cast<int>(draws_() % program_.body.size());
    event.generator = static_cast<Event::Generator>(draws_() % 5);
    return event;
  }

  // Some programs have another thread.
  void AddOpsUnderWay() {
    if (threads_() % 4 != 0) return;
    for (size_t i = kFirstEventful; i < program_.passes.size(); ++i) {
      if (threads_() % 3 != 0) continue;
      Event event;
      event.what = Event::What::kUnderWay;
      // Mostly before the first op of the pass, which a replay begins with.
      const bool first = threads_() % 4 != 0;
      event.at =
          first ? 0 : static_cast<int>(threads_() % program_.body.size());
      event.variable = static_cast<Variable>(threads_() % FirstLocal());
      event.twist = threads_() % 2 == 0;
      program_.passes[i].events.push_back(event);
    }
  }

  // Before it nothing can be replayed.
  static constexpr size_t kFirstEventful = 5;
  Event::What AnyEvent() {
    const uint32_t dice = Below(32);
    if (dice < 4) return Event::What::kForeignWrite;
    if (dice < 10) return Event::What::kFree;
    if (dice < 13) return Event::What::kPause;
    if (dice < 14) return Event::What::kReset;
    if (dice < 15) return Event::What::kOtherOptions;
    if (dice < 22) return Event::What::kRetake;
    if (dice < 25) return Event::What::kAlias;
    return Event::What::kAside;
  }

  std::mt19937 random_;
  std::mt19937 clears_{random_};  // apart: the rest stays as it is
  std::mt19937 draws_;            // the same
  std::mt19937 threads_;          // the same
  ProgramStyle style_;
  Program program_;
  std::vector<bool> set_;
  bool grows_ = false;  // some attributes do, from pass to pass
};

void PrintLines(const Program& program, const std::vector<Line>& lines,
                std::ostream& out) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const Line& line = lines[i];
    out << "  " << i << ": ";
    for (size_t r = 0; r < line.outputs.size(); ++r) {
      out << (r > 0 ? ", " : "") << program.Name(line.outputs[r]);
    }
    if (!line.outputs.empty()) out << " = ";
    switch (line.what) {
      case Line::What::kOp:
        out << TraitsOf(line.kind).name;
        break;
      case Line::What::kDrop:
        out << "del ";
        break;
      case Line::What::kSteal:
        out << "steal";
        break;
      case Line::What::kFresh:
        out << "fresh";
        break;
    }
    out << "(";
    for (size_t j = 0; j < line.inputs.size(); ++j) {
      out << (j > 0 ? ", " : "") << program.Name(line.inputs[j]);
    }
    if (line.what != Line::What::kDrop) out << "; " << line.attribute;
    if (line.grows != 0) out << " + " << line.grows << " a pass";
    out << ")\n";
  }
}

void PrintEvent(const Program& program, const Event& event, std::ostream& out) {
  const std::string name = program.Name(event.variable);
  const char* const by = event.twist ? "events," : "the host,";
  switch (event.what) {
    case Event::What::kForeignWrite:
      out << "foreign work writes " << name;
      break;
    case Event::What::kFree:
      out << "frees and gives back " << name;
      break;
    case Event::What::kRetake:
      out << "has other data in place of " << name;
      break;
    case Event::What::kAlias:
      out << "has a part of " << program.Name(event.other) << " as " << name;
      break;
    case Event::What::kFence:
      out << "has another stream wait, by " << by;
      break;
    case Event::What::kAside:
      out << "has it write " << name << ", by " << by;
      break;
    case Event::What::kPause:
      out << (event.twist ? "pauses, ops are shown all the same" : "pauses");
      break;
    case Event::What::kResume:
      out << "resumes";
      break;
    case Event::What::kReset:
      out << (event.twist ? "builds and resets" : "resets");
      break;
    case Event::What::kOtherOptions:
      out << "takes other options";
      break;
    case Event::What::kUnderWay:
      out << "has another thread inside an op that writes " << name
          << (event.twist ? ", shown to no session," : "");
      break;
    case Event::What::kGenerator: {
      const char* const kDone[] = {"seeds", "seeds again", "forks", "joins",
                                   "uses"};
      out << kDone[static_cast<size_t>(event.generator)] << " the generator";
      break;
    }
  }
  out << " at " << event.at;
}

// Takes elements out while `fails` stays true, larger runs of them first.
template <typename T>
bool TakeOut(std::vector<T>& from, size_t keep,
             const std::function<bool()>& fails) {
  bool any = false;
  for (size_t run = std::max<size_t>(from.size() / 2, 1); run > 0; run /= 2) {
    for (size_t i = 0; i + run <= from.size() && from.size() >= run + keep;) {
      std::vector<T> before = from;
      from.erase(from.begin() + static_cast<ptrdiff_t>(i),
                 from.begin() + static_cast<ptrdiff_t>(i + run));
      if (fails()) {
        any = true;
      } else {
        from = std::move(before);
        ++i;
      }
    }
  }
  return any;
}

template <typename T>
bool Reset(T& field, T to, const std::function<bool()>& fails) {
  if (field == to) return false;
  const T before = std::exchange(field, to);
  if (fails()) return true;
  field = before;
  return false;
}

}  // namespace

std::string Program::Name(Variable variable) const {
  const auto index = static_cast<size_t>(variable);
  if (index < weights) return "w" + std::to_string(index);
  if (index < weights + inputs) return "x" + std::to_string(index - weights);
  return "v" + std::to_string(index - weights - inputs);
}

std::string Program::ToString() const {
  std::ostringstream out;
  out << "lengths of weights and inputs:";
  for (size_t i = 0; i < lengths.size(); ++i) {
    out << " " << Name(static_cast<Variable>(i)) << "=" << lengths[i];
  }
  out << "; input sets: " << input_sets
      << "; locals are kept: " << (keeps_locals ? "yes" : "no") << "\n";
  if (!preamble.empty()) {
    out << "preamble\n";
    PrintLines(*this, preamble, out);
  }
  out << "body\n";
  PrintLines(*this, body, out);
  out << "detour\n";
  PrintLines(*this, detour, out);
  for (size_t i = 0; i < passes.size(); ++i) {
    const Pass& pass = passes[i];
    out << "pass " << i << ": inputs " << pass.inputs;
    const auto at = [&](const char* name, int line) {
      if (line >= 0) out << ", " << name << " " << line;
    };
    if (pass.uploads) out << ", uploads new inputs";
    at("leaves at", pass.leaves_at);
    at("changes line", pass.changes_at);
    at("replaces weight", pass.replaces_weight);
    at("edits weight", pass.edits_weight);
    at("raises at", pass.raises_at);
    if (pass.begins_at > 0) at("begins at", pass.begins_at);
    at("builds at", pass.builds_at);
    at("evicts at", pass.evicts_at);
    at("gives back at", pass.gives_back_at);
    at("clears workspaces at", pass.clears_at);
    if (pass.frees_at >= 0) {
      out << ", frees " << Name(pass.frees) << " at " << pass.frees_at;
    }
    if (pass.holds != 0) {
      out << ", holds";
      for (size_t v = 0; v < locals; ++v) {
        if ((pass.holds >> v & 1) != 0) out << " v" << v;
      }
    }
    if (pass.drops > 0) out << ", drops " << pass.drops;
    for (const Event& event : pass.events) {
      PrintEvent(*this, event, out << ", ");
    }
    if (pass.settles) out << ", settles";
    if (pass.looks) out << ", looks";
    out << "\n";
  }
  return out.str();
}

Program RandomProgram(uint32_t seed, const ProgramStyle& style) {
  return Generator(seed, style).Make();
}

Program Shrink(Program program,
               const std::function<bool(const Program&)>& fails_for,
               int attempts) {
  const std::function<bool()> fails = [&] {
    return attempts-- > 0 && fails_for(program);
  };
  for (bool again = true; again && attempts > 0;) {
    again = TakeOut(program.passes, 1, fails);
    again |= TakeOut(program.preamble, 0, fails);
    again |= TakeOut(program.detour, 0, fails);
    // Passes name lines by number: without them first.
    for (size_t i = program.body.size(); i-- > 1 && attempts > 0;) {
      const Program before = program;
      program.body.erase(program.body.begin() + static_cast<ptrdiff_t>(i));
      for (Pass& pass : program.passes) {
        for (int* line : {&pass.leaves_at, &pass.changes_at, &pass.raises_at,
                          &pass.builds_at, &pass.evicts_at, &pass.gives_back_at,
                          &pass.clears_at, &pass.frees_at}) {
          if (*line > static_cast<int>(i)) --*line;
        }
        for (Event& event : pass.events) {
          if (event.at > static_cast<int>(i)) --event.at;
        }
      }
      if (fails()) {
        again = true;
      } else {
        program = before;
      }
    }
    for (size_t i = 0; i < program.passes.size() && attempts > 0; ++i) {
      Pass& pass = program.passes[i];
      again |= TakeOut(pass.events, 0, fails);
      for (Event& event : pass.events)
        again |= Reset(event.twist, false, fails);
      again |= Reset(pass.begins_at, 0, fails);
      again |= Reset(pass.uploads, false, fails);
      again |= Reset(pass.leaves_at, -1, fails);
      again |= Reset(pass.changes_at, -1, fails);
      again |= Reset(pass.replaces_weight, -1, fails);
      again |= Reset(pass.edits_weight, -1, fails);
      again |= Reset(pass.raises_at, -1, fails);
      again |= Reset(pass.evicts_at, -1, fails);
      again |= Reset(pass.holds, 0u, fails);
      again |= Reset(pass.drops, 0, fails);
      again |= Reset(pass.gives_back_at, -1, fails);
      again |= Reset(pass.clears_at, -1, fails);
      again |= Reset(pass.frees_at, -1, fails);
      again |= Reset(pass.looks, false, fails);
      again |= Reset(pass.settles, false, fails);
      again |= Reset(pass.inputs, 0, fails);
      again |= Reset(pass.builds_at, 0, fails);
    }
    again |= Reset(program.keeps_locals, false, fails);
  }
  return program;
}

}  // namespace reprise::sim
